// Copies columns of a matrix into columns of another, of the same type or rounded.
#include <utility>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

struct Case {
  std::int64_t rows, source_cols, source_begin, target_cols, target_begin, count;
};

TEST_CASE("columns are copied, rounded where the target has fewer bits and widened where it has more; the others stay",
          "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Case& one : {Case{1, 1, 0, 1, 0, 1}, Case{37, 24, 8, 16, 0, 16}, Case{700, 96, 0, 160, 64, 96}}) {
      for (const auto& [from, to] : {std::pair(b.dtype, b.dtype), {DType::f32, b.dtype}, {b.dtype, DType::f32}}) {
        const Values source = random_values({one.rows, one.source_cols}, b.random, from);
        Values expected = random_values({one.rows, one.target_cols}, b.random, to);
        const Tensor target = b.rank.put(expected, to), columns = b.rank.put(source, from);
        for (std::int64_t row = 0; row < one.rows; ++row) {
          for (std::int64_t i = 0; i < one.count; ++i)
            expected(row, one.target_begin + i) = rounded(source(row, one.source_begin + i), to);
        }
        b.team.run([&](TestRank& r) {
          r.ops().copy_columns({.source = columns,
                                .source_begin = one.source_begin,
                                .target = target,
                                .target_begin = one.target_begin,
                                .count = one.count});
        });
        CHECK(b.rank.get(target).data == expected.data);
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
