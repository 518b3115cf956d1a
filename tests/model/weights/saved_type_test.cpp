// Rounding to the types of model folders.
#include "model/weights/saved_type.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "catch.hpp"

namespace pipetrain {
namespace {

std::uint16_t rounded(SavedType type, float value) {
  std::uint16_t bits = 0;
  round_to(type, &value, 1, &bits);
  return bits;
}

// Returns the nearest of all values of a 16-bit type with this many bits of exponent and fraction, ties to the even one.
std::uint16_t nearest(float value, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = std::abs(static_cast<double>(value));
  int exponent = magnitude == 0 ? 1 - bias : std::max(1 - bias, std::ilogb(magnitude));
  const double unit = std::ldexp(1.0, exponent - fraction_bits);
  double units = std::nearbyint(magnitude / unit);  // to even by default
  std::uint32_t bits = 0;
  if (units >= std::ldexp(1.0, fraction_bits + 1)) units /= 2, ++exponent;
  if (exponent > bias) {
    bits = ((1U << exponent_bits) - 1) << fraction_bits;
  } else {
    const auto whole = static_cast<std::uint32_t>(units);
    const bool normal = whole >> fraction_bits != 0;
    bits = normal ? (static_cast<std::uint32_t>(exponent + bias) << fraction_bits) + (whole - (1U << fraction_bits)) : whole;
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000U : 0U));
}

TEST_CASE("weights are rounded to the nearest value of the saved type, ties to even") {
  std::mt19937 random(7);
  bool bf16 = true, fp16 = true;
  for (int i = 0; i < 300'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    bf16 &= rounded(SavedType::bf16, value) == nearest(value, 8, 7);
    const float in_range = std::ldexp(std::copysign(1.0F + static_cast<float>(random() % 8192) / 8192, value),
                                      static_cast<int>(random() % 44) - 27);
    for (const float one : {value, in_range}) fp16 &= rounded(SavedType::fp16, one) == nearest(one, 5, 10);
  }
  CHECK(bf16);
  CHECK(fp16);
  CHECK(rounded(SavedType::fp16, 65519.F) == 0x7bff);
  CHECK(rounded(SavedType::fp16, 65520.F) == 0x7c00);
}

TEST_CASE("values that a saved type cannot hold are reported") {
  std::uint16_t out = 0;
  const auto fits = [&](SavedType type, float value) { return round_to(type, &value, 1, &out); };
  constexpr float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  CHECK(fits(SavedType::fp16, 65504));
  CHECK_FALSE(fits(SavedType::fp16, -65520));
  CHECK_FALSE(fits(SavedType::bf16, largest));
  CHECK(fits(SavedType::fp16, infinity));
  CHECK(fits(SavedType::fp16, std::numeric_limits<float>::quiet_NaN()));
  CHECK((out & 0x7c00) == 0x7c00);
  CHECK((out & 0x3ff) != 0);
}

}  // namespace
}  // namespace pipetrain
