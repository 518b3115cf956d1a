// A sequence in ranges of positions, each attending to the keys and values that earlier ranges left in the cache,
// compared with the reference of the whole sequence, on every backend.
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

Values rows_of(const Values& all, std::int64_t begin, std::int64_t end) {
  Values some({end - begin, all.shape[1]});
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t col = 0; col < all.shape[1]; ++col) some(row - begin, col) = all(row, col);
  return some;
}

TEST_CASE("attention over a cache equals attention over the whole sequence, however it is cut", "[ops]") {
  struct Case {
    std::int64_t heads, kv_heads, head_dim;
    std::vector<std::int64_t> runs;
    std::int64_t window = 0;
    float scale = 0;
    std::int64_t sinks = 0, block = 0, period = 0, stripe = 0;
  };
  const std::vector<Case> cases{{1, 1, 2, {1}},
                                {3, 3, 8, {5, 1, 1, 1}},
                                {4, 2, 16, {63, 2, 1}},
                                {8, 2, 40, {1, 1, 200}},
                                {6, 1, 64, {130, 70, 1, 1}},
                                {2, 1, 256, {9, 1}},
                                {4, 2, 16, {20, 2, 1, 30}, 7, 0.3F},
                                {4, 2, 64, {20, 2, 1, 60}, 7, 0, 3},
                                {2, 1, 128, {90, 1, 1}, 32, 0, 16, 16},
                                {2, 1, 40, {100, 60, 1}, 64, 0, 0, 64, 64, 16}};
  on_every_backend([&](Bench& b) {
    for (const Case& one : cases) {
      const std::int64_t positions = std::accumulate(one.runs.begin(), one.runs.end(), std::int64_t{0});
      SegmentShape whole = whole_sequences(1, positions, {one.heads, one.kv_heads, one.head_dim});
      whole.window = one.window, whole.scale = one.scale, whole.sinks = one.sinks;
      whole.block = one.block, whole.period = one.period, whole.stripe = one.stripe;
      INFO(one.heads << " heads of " << one.head_dim << ", " << positions << " positions");
      const Values qkv = b.draw({positions, whole.packed_cols()});
      const Values expected = reference::attention(whole, qkv).out;
      // The contents after the present positions must not matter.
      const Tensor cache = b.poisoned({positions + 3, 2 * one.kv_heads * one.head_dim});
      std::int64_t first = 0;
      for (const std::int64_t run : one.runs) {
        SegmentShape shape = whole;
        shape.queries = run, shape.first_query = first, shape.keys = first + run;
        const Tensor part = b.put(rows_of(qkv, first, first + run));
        const Tensor out = b.poisoned({run, one.heads * one.head_dim});
        b.team.run([&](TestRank& r) { r.ops().cached_attention(shape, {.qkv = part, .cache = cache, .out = out}); });
        CHECK(relative_error(b.rank.get(out), rows_of(expected, first, first + run)) < b.tolerance);
        first += run;
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
