#include "comm/cpu_rank_sum.hpp"

#include <algorithm>
#include <array>

#include "core/half.hpp"

namespace pipetrain {
namespace {

// The storage type of elements, and the type in which they are added.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum load(Stored value) { return value; }
  static Stored store(Sum value) { return value; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum load(Stored bits) { return from_bf16(bits); }
  static Stored store(Sum value) { return to_bf16(value); }
};
struct F16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum load(Stored bits) { return from_f16(bits); }
  static Stored store(Sum value) { return to_f16(value); }
};

template <class T>
void reduce_into(typename T::Sum* target, const typename T::Stored* source, std::int64_t count, Reduction reduction) {
  if (reduction == Reduction::sum) {
    for (std::int64_t i = 0; i < count; ++i) target[i] += T::load(source[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i] = std::max(target[i], T::load(source[i]));
  }
}

// Goes through a block on the stack, because a target may be a source.
template <class T>
void reduce(const CpuRankSum& sum) {
  using Stored = typename T::Stored;
  constexpr std::int64_t block = 2048;
  std::array<typename T::Sum, block> result;
  for (std::int64_t at = 0; at < sum.count; at += block) {
    const std::int64_t size = std::min(block, sum.count - at);
    std::transform(reinterpret_cast<const Stored*>(sum.sources.front()) + at,
                   reinterpret_cast<const Stored*>(sum.sources.front()) + at + size, result.data(), T::load);
    for (const std::byte* source : sum.sources.subspan(1))
      reduce_into<T>(result.data(), reinterpret_cast<const Stored*>(source) + at, size, sum.reduction);
    for (std::byte* target : sum.targets)
      std::transform(result.data(), result.data() + size, reinterpret_cast<Stored*>(target) + at, T::store);
  }
}

}  // namespace

void reduce_in_rank_order(const CpuRankSum& sum) {
  switch (sum.dtype) {
    case DType::f64:
      return reduce<Plain<double>>(sum);
    case DType::bf16:
      return reduce<Bf16>(sum);
    case DType::f16:
      return reduce<F16>(sum);
    default:
      return reduce<Plain<float>>(sum);
  }
}

}  // namespace pipetrain
