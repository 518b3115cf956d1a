// The square sums of many tensors at once, compared with each by itself.
#include <numeric>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

// More tensors than one call of the kernels takes, of all lengths at which the kernels change methods, some not aligned
// to 16 bytes.
std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> some{1, 3, 768, 2047, 65535, 65536, 65537, 131072, 300001, 65536 * 9};
  for (std::int64_t i = 0; some.size() < 150; ++i) some.push_back(1 + i * 37);
  return some;
}

TEST_CASE("sums of many tensors' squares have the bits of each by itself", "[ops]") {
  on_every_backend([](Bench& b) {
    if (b.dtype != DType::f32) return;
    const std::vector<std::int64_t> counts = lengths();
    const Tensor all = b.put_f32(b.draw_f32({std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}));
    const auto count = static_cast<std::int64_t>(counts.size());
    const Tensor together = b.rank.poisoned({count}, DType::f64), alone = b.rank.poisoned({count}, DType::f64);
    std::vector<SquareSumArgs> sums;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t end = begin + counts[static_cast<std::size_t>(i)];
      sums.push_back({all.row_range(begin, end), together.row_range(i, i + 1)});
      begin = end;
    }
    b.team.run([&](TestRank& r) {
      for (int times = 0; times < 2; ++times) r.ops().square_sum_each(sums);
      for (std::int64_t i = 0; i < count; ++i)
        r.ops().square_sum(sums[static_cast<std::size_t>(i)].tensor, alone.row_range(i, i + 1));
    });
    CHECK((b.rank.bytes(together) == b.rank.bytes(alone)));
  });
}

}  // namespace
}  // namespace pipetrain::testing
