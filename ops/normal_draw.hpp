// Tensors of normal numbers as a pure function of (seed, name, element): Philox words are turned into normals by the method of
// Box and Muller 1958. Plain arithmetic of exactly rounded operations, for GPU code too: every machine and every slicing gives
// the same bits where the compiler fuses no product with a sum.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/philox.hpp"
#include "ops/host_device.hpp"

namespace pipetrain {

// A logical tensor that is drawn: element i comes from Philox's counter (i / 4, name), as number i mod 4 of its block.
struct NormalDraw {
  PhiloxKey key{};         // the halves of the seed
  std::uint64_t name = 0;  // a hash of the tensor's name
  float deviation = 1;
};
constexpr std::uint64_t normals_of_block = 4;

// Returns ln x for normal x > 0, within 2 units in the last place of float: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and ln m
// = 2 atanh((m - 1) / (m + 1)) by its series.
PIPETRAIN_HOST_DEVICE inline float natural_log(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  constexpr std::int32_t sqrt_half = 0x3f3504f3;
  const std::int32_t exponent = (bits - sqrt_half) >> 23;
  const float m = std::bit_cast<float>(bits - exponent * (1 << 23));
  const float s = (m - 1) / (m + 1), s2 = s * s;
  const float series = 1 + s2 * (1.0F / 3 + s2 * (1.0F / 5 + s2 * (1.0F / 7 + s2 * (1.0F / 9))));
  return static_cast<float>(exponent) * std::numbers::ln2_v<float> + 2 * s * series;
}

// Two independent normals from two words: the radius comes from one, the angle from the other (30 bits choose within an eighth
// of a circle to either side, 2 bits choose the quarter).
struct NormalPair {
  float first, second;
};
PIPETRAIN_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t radius_word, std::uint32_t angle_word) {
  const float uniform = (static_cast<float>(static_cast<std::int32_t>(radius_word >> 1)) + 0.5F) * 0x1p-31F;  // in (0, 1]
  const float radius = std::sqrt(-2 * natural_log(uniform));

  const auto centred = static_cast<std::int32_t>(angle_word >> 2) - (1 << 29);
  const float x = (static_cast<float>(centred) + 0.5F) * (std::numbers::pi_v<float> / 4 * 0x1p-29F), x2 = x * x;
  const float cosine = 1 - x2 / 2 * (1 - x2 / 12 * (1 - x2 / 30 * (1 - x2 / 56 * (1 - x2 / 90))));
  const float sine = x * (1 - x2 / 6 * (1 - x2 / 20 * (1 - x2 / 42 * (1 - x2 / 72))));
  const float along = (angle_word & 1U) != 0 ? sine : cosine, across = (angle_word & 1U) != 0 ? cosine : sine;
  const float signed_radius = (angle_word & 2U) != 0 ? -radius : radius;
  return {signed_radius * along, signed_radius * across};
}

}  // namespace pipetrain
