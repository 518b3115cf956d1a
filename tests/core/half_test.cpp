#include "core/half.hpp"

#include <cmath>
#include <random>

#include "catch.hpp"
#include "half.hpp"

using namespace pipetrain;

namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// Returns the nearest number of 8 binary digits, or, of two equally near ones, the one whose last digit is 0; for
// values far from the limits.
float nearest_bf16(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
}

}  // namespace

TEST_CASE("every 16-bit number widens to its value and converts back") {
  for (std::uint32_t value = 0; value < 0x10000U; ++value) {
    const auto bits = static_cast<std::uint16_t>(value);
    const float bf16 = from_bf16(bits), f16 = from_f16(bits), expected = test::from_half(bits);
    CHECK(std::isnan(f16) == std::isnan(expected));
    if (!std::isnan(f16)) {
      CHECK(bits_of(f16) == bits_of(expected));
      CHECK(to_f16(f16) == bits);
    } else {
      CHECK(std::isnan(from_f16(to_f16(f16))));
    }
    if (std::isnan(bf16)) {
      CHECK(std::isnan(from_bf16(to_bf16(bf16))));
    } else {
      CHECK(to_bf16(bf16) == bits);
    }
  }
}

TEST_CASE("fp32 rounds to the nearest number of 16 bits, ties to even, and beyond the largest to infinity") {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    CHECK(to_f16(value) == test::to_half(value));
    const float small = std::ldexp(static_cast<float>(random()) - 2147483648.0F, -static_cast<int>(random() % 70));
    CHECK(to_f16(small) == test::to_half(small));
    CHECK(from_bf16(to_bf16(small)) == nearest_bf16(small));
  }
  CHECK(from_bf16(to_bf16(1.00390625F)) == 1.0F);       // halfway, down to even
  CHECK(from_bf16(to_bf16(1.01171875F)) == 1.015625F);  // halfway, up to even
  CHECK(from_f16(to_f16(1.00048828125F)) == 1.0F);      // halfway
  CHECK(from_f16(to_f16(65519.0F)) == 65504.0F);
  CHECK(std::isinf(from_f16(to_f16(65520.0F))));
  CHECK(from_f16(to_f16(0x1p-25F)) == 0.0F);  // halfway to the smallest
  CHECK(from_f16(to_f16(0x1.8p-25F)) == 0x1p-24F);
  CHECK(std::isinf(from_bf16(to_bf16(3.4e38F))));
  CHECK(std::signbit(from_bf16(to_bf16(-0.0F))));
}
