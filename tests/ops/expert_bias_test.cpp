// Grouped products that add the biases of experts, compared with the two operations one after the other.
#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

// weighed: with factors of the rows.
void check_biased_products(Bench& b, std::int64_t cols, bool weighed) {
  constexpr std::int64_t rows = 300, depth = 64;
  Values offsets(Shape{5});
  offsets.data = {0, 31, 31, 200, rows};  // an expert without rows
  const Tensor x = b.put(b.draw({rows, depth})), matrices = b.put(b.draw({4 * cols, depth}, 0.2)),
               bias = b.put(b.draw({4 * cols})), at = b.rank.put(offsets, DType::i32);
  const Tensor weights = weighed ? b.put_f32(b.draw_f32({rows})) : Tensor{};
  const Tensor together = b.poisoned({rows, cols}), apart = b.poisoned({rows, cols});
  b.team.run([&](TestRank& r) {
    GroupedMatmulArgs args{.kind = MatmulKind::forward, .in = x, .w = matrices, .offsets = at, .out = apart};
    r.ops().grouped_matmul(args);
    r.ops().add_expert_bias({.x = apart, .bias = bias, .offsets = at, .weights = weights});
    args.out = together, args.bias = GroupedBias{.bias = bias, .weights = weights};
    r.ops().grouped_matmul(args);
  });
  CHECK(relative_error(b.rank.get(together), b.rank.get(apart)) <= b.tolerance);
  CHECK(b.rank.guards_intact());
}

TEST_CASE("a grouped product adds the biases of its experts", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    for (const std::int64_t cols : {5, 64, 328}) {
      for (const bool weighed : {false, true}) {
        INFO(cols << " columns" << (weighed ? ", weighed" : ""));
        check_biased_products(b, cols, weighed);
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
