#include "ops/settle_moments.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/kernels.hpp"
#include "ops/update.hpp"

namespace pipetrain::cpu {
namespace {

constexpr std::int64_t moment_tile = 65536;

// Calls work(first, end) for ranges of the elements.
template <class Work>
void for_ranges(CpuStream& stream, std::int64_t elements, const Work& work) {
  stream.parallel_for((elements + moment_tile - 1) / moment_tile, [&](std::int64_t tile) {
    const std::int64_t first = tile * moment_tile;
    work(first, std::min(elements, first + moment_tile));
  });
}

// Returns the mean of value(i) over the elements, of which ranges are summed in order.
template <class Value>
double mean_of(CpuStream& stream, std::int64_t elements, const Value& value) {
  std::vector<double> sums(static_cast<std::size_t>((elements + moment_tile - 1) / moment_tile));
  for_ranges(stream, elements, [&](std::int64_t first, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = first; i < end; ++i) sum += value(i);
    sums[static_cast<std::size_t>(first / moment_tile)] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total / static_cast<double>(elements);
}

void raise_least(CpuStream& stream, const SettleMomentsArgs& args) {
  auto* const second = args.second.as<float>();
  const double mean = mean_of(stream, args.second.elements(), [&](std::int64_t i) { return double{second[i]}; });
  const auto least = static_cast<float>(least_moment_share * mean);
  for_ranges(stream, args.second.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) second[i] = std::max(second[i], least);
  });
}

void follow_gradients(CpuStream& stream, const SettleMomentsArgs& args) {
  const auto* const first = args.first.as<float>();
  auto* const second = args.second.as<float>();
  const float unbias = adam_correction(args.beta2, args.frozen_after);
  const double usual = (1 - double{args.beta1}) / (1 + double{args.beta1});  // mean square
  const double square = mean_of(stream, args.second.elements(), [&](std::int64_t i) {
    const float quotient = first[i] / (std::sqrt(second[i] * unbias) + args.eps);
    return double{quotient} * quotient;
  });
  const auto factor = static_cast<float>(double{args.beta2} + (1 - double{args.beta2}) * square / usual);
  for_ranges(stream, args.second.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) second[i] *= factor;
  });
}

}  // namespace

void settle_moments(CpuStream& stream, const SettleMomentsArgs& args) {
  if (args.second.elements() > 0) args.raises ? raise_least(stream, args) : follow_gradients(stream, args);
}

}  // namespace pipetrain::cpu
