// Converts e4m3 to and from fp32 (Micikevicius et al. 2022): 1 bit of sign, 4 of exponent, 3 of mantissa; no infinity, and NaN
// where all bits but the sign are set.
#pragma once

#include <bit>
#include <cstdint>

namespace pipetrain {

inline constexpr float largest_e4m3 = 448;

inline float from_e4m3(std::uint8_t bits) {
  constexpr std::uint32_t rebias = std::uint32_t{127 - 7} << 23;
  constexpr float smallest = 0x1p-6F;  // the smallest normal number
  const std::uint32_t sign = std::uint32_t{bits & 0x80U} << 24, magnitude = std::uint32_t{bits & 0x7fU} << 20;
  if ((bits & 0x7fU) == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
  // Subnormal: 2^-6 (1 + fraction) - 2^-6.
  const float wide = magnitude < (1U << 23)
                         ? std::bit_cast<float>(magnitude + std::bit_cast<std::uint32_t>(smallest)) - smallest
                         : std::bit_cast<float>(magnitude + rebias);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(wide));
}

// Rounds to nearest, ties to even. Numbers beyond the largest one, and NaN, become NaN.
inline std::uint8_t to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80U, magnitude = bits & 0x7fffffffU;
  if (magnitude > std::bit_cast<std::uint32_t>(464.0F)) return static_cast<std::uint8_t>(sign | 0x7fU);
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-6F)) {
    // A multiple of 2^-9, to which the sum with 2^14 rounds.
    const float sum = std::bit_cast<float>(magnitude) + 0x1p14F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(sum) & 0xfU));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20 & 1U) - (std::uint32_t{127 - 7} << 23);
  return static_cast<std::uint8_t>(sign | rounded >> 20);
}

}  // namespace pipetrain
