#include "model/quantisation/nf4.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipetrain {
namespace {

// A value up to midpoint i is at least as near to value i as to the next one.
template <std::size_t count>
constexpr std::array<float, count - 1> midpoints(const std::array<float, count>& values) {
  std::array<float, count - 1> between{};
  for (std::size_t i = 0; i + 1 < count; ++i) between[i] = (values[i] + values[i + 1]) / 2;
  return between;
}

float inverse_of(float scale) { return 1.0F / std::max(scale, 1e-38F); }

// The boundaries of a decade's fractions: from 0.1 to 1 in equal steps of fp32, counted from the nearer end, as PyTorch's
// linspace() has them.
float boundary(int index, int steps) {
  const float step = (1.0F - 0.1F) / static_cast<float>(steps);
  const double from_start = 0.1F + static_cast<double>(step) * index,
               from_end = 1 - static_cast<double>(step) * (steps - index);
  return static_cast<float>(index < (steps + 1) / 2 ? from_start : from_end);
}

std::array<float, nf4_scale_map> make_scale_values() {
  constexpr int decades = 7;
  std::array<float, nf4_scale_map> values{};
  std::size_t next = 0;
  for (int decade = 0; decade < decades; ++decade) {
    const int fractions = 1 << decade;
    const auto unit = static_cast<float>(std::pow(10.0, decade + 1 - decades));
    for (int i = 0; i < fractions; ++i) {
      const float value = unit * ((boundary(i, fractions) + boundary(i + 1, fractions)) / 2);
      values[next++] = value;
      values[next++] = -value;
    }
  }
  values[next++] = 0;
  values[next++] = 1;
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

const std::array<float, nf4_scale_map>& nf4_scale_values() {
  static const std::array<float, nf4_scale_map> values = make_scale_values();
  return values;
}

std::vector<float> nf4_scales_of(std::span<const float> values) {
  constexpr auto block = static_cast<std::size_t>(nf4_block);
  std::vector<float> scales((values.size() + block - 1) / block);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    float largest = 0;
    for (const float value : values.subspan(i * block, std::min(block, values.size() - i * block)))
      largest = std::max(largest, std::fabs(value));
    scales[i] = largest;
  }
  return scales;
}

void nf4_codes_of(std::span<const float> values, float scale, std::uint8_t* codes) {
  static constexpr auto bounds = midpoints(nf4_level_values);
  const float inverse = inverse_of(scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = values[i] * inverse;  // beyond 1 by rounding at most, and then as 1
    int code = 0;
    for (const float bound : bounds) code += value > bound ? 1 : 0;
    codes[i] = static_cast<std::uint8_t>(code);
  }
}

Nf4ScaleCodes nf4_code_scales(std::span<const float> scales) {
  static const auto bounds = midpoints(nf4_scale_values());
  constexpr auto group = static_cast<std::size_t>(nf4_scale_group);
  double sum = 0;
  for (std::size_t first = 0; first < scales.size(); first += group) {
    const auto own = scales.subspan(first, std::min(group, scales.size() - first));
    sum += std::accumulate(own.begin(), own.end(), 0.0);
  }
  Nf4ScaleCodes coded;
  coded.mean = scales.empty() ? 0 : static_cast<float>(sum / static_cast<double>(scales.size()));
  coded.codes.resize(scales.size());
  for (std::size_t first = 0; first < scales.size(); first += group) {
    const std::size_t count = std::min(group, scales.size() - first);
    float largest = 0;
    for (std::size_t i = first; i < first + count; ++i) largest = std::max(largest, std::fabs(scales[i] - coded.mean));
    const float inverse = inverse_of(largest);
    for (std::size_t i = first; i < first + count; ++i) {
      const float value = (scales[i] - coded.mean) * inverse;
      coded.codes[i] = static_cast<std::uint8_t>(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin());
    }
    coded.scales.push_back(largest);
  }
  return coded;
}

}  // namespace pipetrain
