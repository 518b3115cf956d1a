// Converts 16-bit numbers, bf16 and IEEE 754 binary16 (f16), to and from fp32. Widening is exact; rounding is to
// nearest, ties to even; infinity and NaN are kept. The functions have no branches, so that loops over them vectorise,
// and are always inlined, because files are compiled for different processors.
#pragma once

#include <bit>
#include <cstdint>

namespace pipetrain {

[[gnu::always_inline]] inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

[[gnu::always_inline]] inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16, nan = bits >> 16 | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

[[gnu::always_inline]] inline float from_f16(std::uint16_t bits) {
  constexpr std::uint32_t rebias = std::uint32_t{127 - 15} << 23, smallest = std::uint32_t{127 - 14} << 23;  // 2^-14
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16, magnitude = std::uint32_t{bits & 0x7fffU} << 13;
  // Subnormal: 2^-14 (1 + fraction) - 2^-14.
  const auto subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + smallest) - std::bit_cast<float>(smallest));
  const std::uint32_t normal = magnitude + rebias, endless = normal + rebias;
  const std::uint32_t wide = magnitude < (1U << 23) ? subnormal : magnitude >= (31U << 23) ? endless : normal;
  return std::bit_cast<float>(sign | wide);
}

[[gnu::always_inline]] inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  // Subnormal: a multiple of 2^-24, to which the sum with 1/2 rounds. Larger numbers do not use this value.
  constexpr std::uint32_t half = 0x3f000000U;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(half)) - half;
  const std::uint32_t normal = (magnitude + 0xfffU + (magnitude >> 13 & 1U) - (std::uint32_t{127 - 15} << 23)) >> 13;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
  const std::uint32_t endless = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  return static_cast<std::uint16_t>(sign | (magnitude >= 0x477ff000U ? endless : finite));  // beyond 65,504
}

}  // namespace pipetrain
