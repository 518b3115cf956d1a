#include "comm/compressed/block_codes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace pipetrain {
namespace {

// The loops have no branches and no calls, so that the compiler makes vectors of them.
constexpr std::size_t most_elements = 1024;
using Sums = std::array<float, most_elements>;

constexpr std::uint32_t sign_bit = 0x80000000U, infinity_bits = 0x7f800000U;
constexpr float largest_int8 = 127;
// Below this, 127 / magnitude is no longer finite: such blocks are sent as zeros, and are errors as a whole.
constexpr float least_magnitude = 127 / std::numeric_limits<float>::max() * 2;

void write_scale(std::uint32_t* words, const BlockFormat& format, float scale) {
  std::memcpy(words + format.words - 1, &scale, sizeof scale);
}
float scale_of(const std::uint32_t* words, const BlockFormat& format) {
  float scale = 0;
  std::memcpy(&scale, words + format.words - 1, sizeof scale);
  return scale;
}

// Returns the largest magnitude as the bits of a float, which are in the order of magnitudes; those of a number that is not
// finite are the largest.
std::uint32_t largest_magnitude(const Sums& sums, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(sums[i]) & ~sign_bit));
  return static_cast<std::uint32_t>(largest);
}

// Returns the scale. Rounds to the nearest integer, ties to even. No rounding makes a product larger than 127.
float encode_int8(const Sums& sums, std::size_t count, float magnitude, float* error, std::uint32_t* words) {
  constexpr float shift = 12582912;  // 1.5 x 2^23: numbers of this size have no fraction, and the integer in their low bits
  const bool is_zero = magnitude < least_magnitude;
  const float inverse = is_zero ? 0 : largest_int8 / magnitude;
  const float scale = is_zero ? 0 : magnitude / largest_int8;
  auto* const codes = reinterpret_cast<std::int8_t*>(words);
  for (std::size_t i = 0; i < count; ++i) {
    const float shifted = sums[i] * inverse + shift;
    codes[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(shifted));
    error[i] = sums[i] - (shifted - shift) * scale;
  }
  return scale;
}

// Returns the mean magnitude of the first `count` sums, the others being 0, added in a fixed order in 16 lanes.
float mean_magnitude(const Sums& sums, std::size_t count) {
  constexpr std::size_t lanes = 16;
  std::array<float, lanes> totals{};
  for (std::size_t i = 0; i < sums.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) totals[lane] += std::fabs(sums[i + lane]);
  float total = 0;
  for (const float of_lane : totals) total += of_lane;
  return total / static_cast<float>(count);
}

// Returns the scale; one that is not finite has overflowed, and then neither codes nor errors are written.
float encode_signs(const Sums& sums, std::size_t count, float* error, std::uint32_t* words) {
  static_assert(std::endian::native == std::endian::little);
  const float scale = mean_magnitude(sums, count);
  if (!std::isfinite(scale)) return scale;
  std::array<std::uint8_t, most_elements> negative{};
  for (std::size_t i = 0; i < most_elements; ++i)
    negative[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(sums[i]) >> 31);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(words);
  for (std::size_t i = 0; i < most_elements; i += 8) {
    std::uint64_t eight = 0;  // bytes of 0 or 1; the product has bit 0 of byte k in bit 56 + k
    std::memcpy(&eight, negative.data() + i, sizeof eight);
    bytes[i / 8] = static_cast<std::uint8_t>((eight * 0x0102040810204080U) >> 56);
  }
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scale);
  for (std::size_t i = 0; i < count; ++i)
    error[i] = sums[i] - std::bit_cast<float>(bits | (std::bit_cast<std::uint32_t>(sums[i]) & sign_bit));
  return scale;
}

void decode_int8(const std::uint32_t* words, float scale, std::size_t count, Sums& decoded) {
  const auto* const codes = reinterpret_cast<const std::int8_t*>(words);
  for (std::size_t i = 0; i < count; ++i) decoded[i] = static_cast<float>(codes[i]) * scale;
}

void decode_signs(const std::uint32_t* words, float scale, Sums& decoded) {
  static constexpr auto bit_masks = [] {
    std::array<std::uint32_t, 32> masks{};
    for (std::size_t i = 0; i < masks.size(); ++i) masks[i] = 1U << i;
    return masks;
  }();
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scale);
  for (std::size_t word = 0; word < most_elements / 32; ++word)
    for (std::size_t i = 0; i < 32; ++i)
      decoded[word * 32 + i] = std::bit_cast<float>(bits ^ ((words[word] & bit_masks[i]) != 0 ? sign_bit : 0U));
}

}  // namespace

void encode_block(BlockCode code, std::span<const float> values, float* error, std::uint32_t* words) {
  const BlockFormat format = block_format(code);
  const std::size_t count = values.size();
  assert(code != BlockCode::none && count > 0 && count <= static_cast<std::size_t>(format.elements));
  Sums sums;
  const float* const given = values.data();
  for (std::size_t i = 0; i < count; ++i) sums[i] = given[i] + error[i];
  const auto size = static_cast<std::size_t>(format.elements);
  if (count < size || code == BlockCode::sign) std::fill(sums.begin() + static_cast<std::ptrdiff_t>(count), sums.end(), 0.0F);
  if (count < size) std::fill(words, words + format.words, 0U);
  const std::uint32_t largest = largest_magnitude(sums, count);
  float scale = std::numeric_limits<float>::quiet_NaN();
  if (largest < infinity_bits) {
    scale = code == BlockCode::sign ? encode_signs(sums, count, error, words)
                                    : encode_int8(sums, count, std::bit_cast<float>(largest), error, words);
  }
  if (!std::isfinite(scale)) {
    std::fill(words, words + format.words, 0U);
    scale = std::numeric_limits<float>::quiet_NaN();
  }
  write_scale(words, format, scale);
}

void average_block(std::span<float> values, const float* averages, float fresh, float kept) {
  float* const target = values.data();
  for (std::size_t i = 0; i < values.size(); ++i) target[i] = fresh * target[i] + kept * averages[i];
}

void divide_block(std::span<float> values, const BlockScales& scales) {
  float* const target = values.data();
  for (std::size_t i = 0; i < values.size(); ++i) target[i] /= std::sqrt(scales.squares[i] * scales.unbias) + scales.eps;
}

void multiply_block(std::span<float> values, const BlockScales& scales) {
  float* const target = values.data();
  for (std::size_t i = 0; i < values.size(); ++i) target[i] *= std::sqrt(scales.squares[i] * scales.unbias) + scales.eps;
}

void decode_block(BlockCode code, const std::uint32_t* words, std::span<float> values, Decoding decoding) {
  assert(code != BlockCode::none);
  const float scale = scale_of(words, block_format(code));
  Sums decoded;
  if (code == BlockCode::sign) {
    decode_signs(words, scale, decoded);
  } else {
    decode_int8(words, scale, values.size(), decoded);
  }
  float* const target = values.data();
  if (decoding == Decoding::write) {
    std::copy_n(decoded.begin(), values.size(), target);
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) target[i] += decoded[i];
  }
}

}  // namespace pipetrain
