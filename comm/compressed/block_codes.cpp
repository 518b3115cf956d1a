#include "comm/compressed/block_codes.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace pipetrain {
namespace {

constexpr std::int64_t most_elements = 256;
using Sums = std::array<float, most_elements>;

constexpr float largest_int8 = 127;
// Below this, 127 / magnitude is no longer finite: such blocks are sent as zeros, and are errors as a whole.
constexpr float least_magnitude = 127 / std::numeric_limits<float>::max() * 2;

float* scale_of(std::uint32_t* words, const BlockFormat& format) { return reinterpret_cast<float*>(words + format.words - 1); }
float scale_of(const std::uint32_t* words, const BlockFormat& format) {
  float scale = 0;
  std::memcpy(&scale, words + format.words - 1, sizeof scale);
  return scale;
}

// Rounds to the nearest integer, ties to even, for magnitudes below 2^22.
float nearest(float value) {
  constexpr float shift = 12582912;  // 1.5 x 2^23: numbers of this size have no fraction
  return (value + shift) - shift;
}

void encode_int8(const Sums& sums, std::int64_t count, float* error, std::int8_t* codes, float& scale) {
  float magnitude = 0;
  for (std::int64_t i = 0; i < count; ++i) magnitude = std::max(magnitude, std::fabs(sums[static_cast<std::size_t>(i)]));
  const bool is_zero = magnitude < least_magnitude;
  const float inverse = is_zero ? 0 : largest_int8 / magnitude;
  scale = is_zero ? 0 : magnitude / largest_int8;
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = sums[static_cast<std::size_t>(i)];
    const float code = std::clamp(nearest(sum * inverse), -largest_int8, largest_int8);
    codes[i] = static_cast<std::int8_t>(code);
    error[i] = sum - code * scale;
  }
}

}  // namespace

void encode_block(BlockCode code, std::span<const float> values, float* error, std::uint32_t* words) {
  const BlockFormat format = block_format(code);
  const auto count = static_cast<std::int64_t>(values.size());
  assert(code == BlockCode::int8 && count > 0 && count <= format.elements && format.elements <= most_elements);
  Sums sums;
  float not_finite = 0;  // becomes NaN, which the search for the largest magnitude would miss
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = values[static_cast<std::size_t>(i)] + error[i];
    sums[static_cast<std::size_t>(i)] = sum;
    not_finite += sum * 0;
  }
  std::fill(words, words + format.words, 0U);
  float& scale = *scale_of(words, format);
  if (std::isnan(not_finite)) {
    scale = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  encode_int8(sums, count, error, reinterpret_cast<std::int8_t*>(words), scale);
}

void decode_block(BlockCode code, const std::uint32_t* words, std::span<float> values, Decoding decoding) {
  assert(code == BlockCode::int8);
  const float scale = scale_of(words, block_format(code));
  const auto* codes = reinterpret_cast<const std::int8_t*>(words);
  if (decoding == Decoding::write) {
    for (float& value : values) value = static_cast<float>(*codes++) * scale;
  } else {
    for (float& value : values) value += static_cast<float>(*codes++) * scale;
  }
}

}  // namespace pipetrain
