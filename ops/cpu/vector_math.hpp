// Small pieces of arithmetic in a form that compilers vectorise without giving up IEEE rules.
#pragma once

#include <bit>
#include <cstdint>

namespace pipetrain::cpu {

// `condition ? yes : no` without a branch. Vectorised branches compute all outcomes; those outside the clamp
// would compute with denormal numbers, at a hundred times the cost.
inline float select(bool condition, float yes, float no) {
  const std::int32_t mask = -static_cast<std::int32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::int32_t>(yes) & mask) | (std::bit_cast<std::int32_t>(no) & ~mask));
}

// e^x to about 2 ulp for x in [-87, 88], clamped outside: x = n ln 2 + r, a polynomial in r (Cephes, S. Moshier), times 2^n.
inline float fast_exp(float x) {
  x = select(x < -87.0F, -87.0F, x);
  x = select(x > 88.0F, 88.0F, x);
  constexpr float round_magic = 12582912.0F;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  const float shifted = x * 1.44269504088896341F + round_magic;
  const float n = shifted - round_magic;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(round_magic);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

inline float sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

// Sums value(i) over [0, count) in `lanes` interleaved partial sums, an order that vectorises and never changes.
template <class T = float, class Value>
T lane_sum(std::int64_t count, Value value) {
  constexpr std::int64_t lanes = 32;
  T partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) partial[lane] += value(i + lane);
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) partial[lane] += value(i + lane);
  for (std::int64_t width = lanes / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  }
  return partial[0];
}

// Returns the largest of count > 0 values.
inline float lane_max(const float* values, std::int64_t count) {
  constexpr std::int64_t lanes = 32;
  if (count < lanes) {
    float most = values[0];
    for (std::int64_t i = 1; i < count; ++i) most = values[i] > most ? values[i] : most;
    return most;
  }
  float partial[lanes];
  for (std::int64_t lane = 0; lane < lanes; ++lane) partial[lane] = values[lane];
  for (std::int64_t i = lanes; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const float value = values[i + lane];
      partial[lane] = value > partial[lane] ? value : partial[lane];
    }
  }
  float most = partial[0];
  for (std::int64_t lane = 1; lane < lanes; ++lane) most = partial[lane] > most ? partial[lane] : most;
  for (std::int64_t i = count / lanes * lanes; i < count; ++i) most = values[i] > most ? values[i] : most;
  return most;
}

}  // namespace pipetrain::cpu
