#include "actors/training/sums/frozen_moments.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/update.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t tile_elements = 65536;

// Calls work(first, end) for ranges of the elements.
template <class Work>
void for_ranges(CpuStream& stream, std::size_t elements, const Work& work) {
  stream.parallel_for(static_cast<std::int64_t>((elements + tile_elements - 1) / tile_elements), [&](std::int64_t tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * tile_elements;
    work(first, std::min(elements, first + tile_elements));
  });
}

// Returns the mean of value(i) over the elements, of which ranges are summed in order.
template <class Value>
double mean_of(CpuStream& stream, std::size_t elements, const Value& value) {
  std::vector<double> sums((elements + tile_elements - 1) / tile_elements);
  for_ranges(stream, elements, [&](std::size_t first, std::size_t end) {
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += value(i);
    sums[first / tile_elements] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total / static_cast<double>(elements);
}

}  // namespace

void raise_least(CpuStream& stream, const TensorMoments& moments) {
  constexpr double share = 0.01;
  stream.enqueue([&stream, moments] {
    const double mean = mean_of(stream, moments.elements, [&](std::size_t i) { return double{moments.second[i]}; });
    const auto least = static_cast<float>(share * mean);
    for_ranges(stream, moments.elements, [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) moments.second[i] = std::max(moments.second[i], least);
    });
  });
}

void follow_gradients(CpuStream& stream, const TensorMoments& moments, const FrozenAdam& adam) {
  const float unbias = adam_correction(adam.beta2, adam.frozen_after);
  const double usual = (1 - double{adam.beta1}) / (1 + double{adam.beta1});  // mean square
  stream.enqueue([&stream, moments, adam, unbias, usual] {
    const double square = mean_of(stream, moments.elements, [&](std::size_t i) {
      const float quotient = moments.first[i] / (std::sqrt(moments.second[i] * unbias) + adam.eps);
      return double{quotient} * quotient;
    });
    const auto factor = static_cast<float>(double{adam.beta2} + (1 - double{adam.beta2}) * square / usual);
    for_ranges(stream, moments.elements, [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) moments.second[i] *= factor;
    });
  });
}

}  // namespace pipetrain
