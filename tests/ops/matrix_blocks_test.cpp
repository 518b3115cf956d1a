// Blocks that are parts of a larger matrix, and products that are multiplied by a factor.
#include <cmath>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

struct BlockPlace {
  std::int64_t rows, cols, row, column;
};
struct BlockCase {
  Shape whole;
  std::vector<BlockPlace> blocks;
};
// The second has rows and columns without a block.
const std::vector<BlockCase> block_cases{{{48, 24}, {{16, 8, 0, 0}, {24, 12, 16, 8}, {8, 4, 40, 20}}},
                                         {{301, 7}, {{100, 2, 1, 3}, {200, 1, 101, 6}}}};

}  // namespace

TEST_CASE("blocks are put together with zeros between them", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const BlockCase& one : block_cases) {
      Values expected(one.whole);
      std::vector<MatrixBlock> blocks;
      for (const BlockPlace& block : one.blocks) {
        const Values values = random_values({block.rows, block.cols}, b.random, b.dtype);
        blocks.push_back({b.rank.put(values, b.dtype), block.row, block.column});
        for (std::int64_t row = 0; row < block.rows; ++row)
          for (std::int64_t col = 0; col < block.cols; ++col) expected(block.row + row, block.column + col) = values(row, col);
      }
      const Tensor out = b.poisoned(one.whole);
      b.team.run([&](TestRank& r) { r.ops().join_blocks({.blocks = blocks, .out = out}); });
      CHECK(b.rank.get(out).data == expected.data);
    }
  });
}

TEST_CASE("a matrix is added to its blocks, or replaces them", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const BlockCase& one : block_cases) {
      for (const Accumulate accumulate : {Accumulate::yes, Accumulate::no}) {
        const Values source = random_values(one.whole, b.random, DType::f32);
        std::vector<MatrixBlock> blocks;
        std::vector<Values> expected;
        for (const BlockPlace& block : one.blocks) {
          Values values = random_values({block.rows, block.cols}, b.random, DType::f32);
          blocks.push_back({b.rank.put(values, DType::f32), block.row, block.column});
          for (std::int64_t row = 0; row < block.rows; ++row) {
            for (std::int64_t col = 0; col < block.cols; ++col) {
              const double added = source(block.row + row, block.column + col);
              values(row, col) = rounded(accumulate == Accumulate::yes ? values(row, col) + added : added, DType::f32);
            }
          }
          expected.push_back(std::move(values));
        }
        const Tensor from = b.rank.put(source, DType::f32);
        b.team.run([&](TestRank& r) { r.ops().add_blocks({.source = from, .blocks = blocks, .accumulate = accumulate}); });
        for (std::size_t i = 0; i < blocks.size(); ++i) CHECK(b.rank.get(blocks[i].values).data == expected[i].data);
      }
    }
  });
}

TEST_CASE("a factor multiplies a product", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const auto kind : {MatmulKind::forward, MatmulKind::input_grad}) {
      for (const std::int64_t rows : {std::int64_t{16}, std::int64_t{600}}) {
        const std::int64_t n = 16, k = 192;
        const std::int64_t in_cols = kind == MatmulKind::forward ? k : n, out_cols = kind == MatmulKind::forward ? n : k;
        const Tensor in = b.rank.put(random_values({rows, in_cols}, b.random, b.dtype), b.dtype),
                     w = b.rank.put(random_values({n, k}, b.random, b.dtype), b.dtype);
        const Tensor plain = b.rank.poisoned({rows, out_cols}, DType::f32), out = b.rank.poisoned({rows, out_cols}, DType::f32);
        constexpr float factor = 5.0F / 3;
        b.team.run([&](TestRank& r) {
          r.ops().matmul_scatter({.kind = kind, .in = in, .w = w, .out = plain});
          r.ops().matmul_scatter({.kind = kind, .in = in, .w = w, .out = out, .factor = factor});
        });
        const Values expected = b.rank.get(plain), found = b.rank.get(out);
        for (std::size_t i = 0; i < expected.data.size(); ++i) {
          const double product = expected.data[i] * static_cast<double>(factor);
          REQUIRE(std::abs(found.data[i] - product) <= 1e-6 * (1 + std::abs(product)));
        }
      }
    }
  });
}

}  // namespace pipetrain::testing
