// 8-bit numbers on the host, for the inputs and outputs of GPU tests: e4m3 without infinities, e5m2 as IEEE 754 would
// define it (Micikevicius et al. 2022).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.hpp"

namespace pipetrain::test {

inline double from_fp8(std::uint8_t bits, DType type) {
  const int mantissa_bits = type == DType::e4m3 ? 3 : 2, bias = type == DType::e4m3 ? 7 : 15;
  const int magnitude = bits & 0x7F, exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  if (type == DType::e4m3 && magnitude == 0x7F) return std::numeric_limits<double>::quiet_NaN();
  if (type == DType::e5m2 && exponent == 31)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

inline double largest_fp8(DType type) { return type == DType::e4m3 ? 448 : 57344; }

// Rounds to nearest, ties to even; larger values become the largest.
inline double round_to_fp8(double value, DType type) {
  if (std::isnan(value)) return value;
  // The code of the largest number; codes are ordered as magnitudes are.
  const int last = type == DType::e4m3 ? 0x7E : 0x7B;
  const double magnitude = std::min(std::abs(value), largest_fp8(type));
  int above = 0;
  while (above < last && from_fp8(static_cast<std::uint8_t>(above), type) < magnitude) ++above;
  const auto at = [&](int code) { return from_fp8(static_cast<std::uint8_t>(code), type); };
  int code = above;
  if (above > 0 && at(above) != magnitude) {
    const double to_below = magnitude - at(above - 1), to_above = at(above) - magnitude;
    if (to_below < to_above || (to_below == to_above && (above - 1) % 2 == 0)) code = above - 1;
  }
  return std::copysign(at(code), value);
}

}  // namespace pipetrain::test
