#include "comm/cpu_rank_sum.hpp"

#include <algorithm>
#include <array>

namespace pipetrain {
namespace {

template <class T>
void reduce_into(T* target, const T* source, std::int64_t count, Reduction reduction) {
  if (reduction == Reduction::sum) {
    for (std::int64_t i = 0; i < count; ++i) target[i] += source[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i] = std::max(target[i], source[i]);
  }
}

// Through a block on the stack: a target may be a source.
template <class T>
void reduce(const CpuRankSum& sum) {
  constexpr std::int64_t block = 2048;
  std::array<T, block> result;
  for (std::int64_t at = 0; at < sum.count; at += block) {
    const std::int64_t size = std::min(block, sum.count - at);
    std::copy_n(reinterpret_cast<const T*>(sum.sources.front()) + at, size, result.data());
    for (const std::byte* source : sum.sources.subspan(1))
      reduce_into(result.data(), reinterpret_cast<const T*>(source) + at, size, sum.reduction);
    for (std::byte* target : sum.targets) std::copy_n(result.data(), size, reinterpret_cast<T*>(target) + at);
  }
}

}  // namespace

void reduce_in_rank_order(const CpuRankSum& sum) {
  if (sum.dtype == DType::f64) {
    reduce<double>(sum);
  } else {
    reduce<float>(sum);
  }
}

}  // namespace pipetrain
