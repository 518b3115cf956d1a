// Tables that give the code of a value (ops/eight_bit.hpp) by two look-ups and one comparison, where nearest_code() compares
// eight times. GPUs keep them in shared memory.
//
// The values whose code is c end at last[c]. A bin has the values of one sign and exponent whose mantissas begin with the same
// seven bits. Neighbours of the map lie further apart than the ends of a bin, so that at most one code ends within it.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "ops/eight_bit.hpp"

namespace pipetrain {

struct EightBitSearch {
  static constexpr int dropped_bits = 16, octaves = 23;
  // The first bin begins with zero and ends just above 2^-23, below every value whose code is not zero's; the last has those
  // from 1 on.
  static constexpr int bins = (octaves << (23 - dropped_bits)) + 1;

  EightBitMap map;
  float last[eight_bit_codes];
  std::uint8_t first[2][bins];  // the code of a bin's smallest value; [0]: positive values, [1]: negative ones

  constexpr explicit EightBitSearch(const EightBitMap& values) : map(values), last(), first() {
    for (std::size_t code = 0; code < eight_bit_codes; ++code) last[code] = last_value(code);
    for (int bin = 0; bin < bins; ++bin) {
      first[0][bin] = nearest_code(map.data(), smallest_of(bin));
      first[1][bin] = nearest_code(map.data(), -largest_of(bin));
    }
  }

  // Returns nearest_code(map, value).
  PIPETRAIN_HOST_DEVICE constexpr std::uint8_t code(float value) const { return value != value ? 1 : code_of_number(value); }
  // The same without branches. The code of a value that is no number is one of the codes at the ends.
  PIPETRAIN_HOST_DEVICE constexpr std::uint8_t code_of_number(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const int kept = static_cast<int>((bits & 0x7fffffffU) >> dropped_bits) - first_kept;
    const std::uint8_t code = first[bits >> 31][kept < 0 ? 0 : kept < bins ? kept : bins - 1];
    return static_cast<std::uint8_t>(code + (last[code] < value ? 1 : 0));
  }

  // The magnitudes at the ends of a bin.
  static constexpr float smallest_of(int bin) {
    return bin == 0 ? 0.0F : std::bit_cast<float>(static_cast<std::uint32_t>(bin + first_kept) << dropped_bits);
  }
  static constexpr float largest_of(int bin) {
    if (bin == bins - 1) return std::numeric_limits<float>::infinity();
    return std::bit_cast<float>((static_cast<std::uint32_t>(bin + 1 + first_kept) << dropped_bits) - 1);
  }

 private:
  static constexpr int first_kept = (127 - octaves) << (23 - dropped_bits);  // the kept bits of the first bin

  // Returns the next float above or below one that is not zero.
  static constexpr float next(float value, bool above) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((value > 0) == above ? bits + 1 : bits - 1);
  }

  // Rounding moves the end a little from the middle of two values.
  constexpr float last_value(std::size_t code) const {
    if (code == eight_bit_codes - 1) return std::numeric_limits<float>::infinity();
    const float low = map[code], high = map[code + 1];
    const auto is_nearer = [&](float value) { return value - low <= high - value; };
    float value = low + (high - low) / 2;
    while (!is_nearer(value)) value = next(value, false);
    while (is_nearer(next(value, true))) value = next(value, true);
    return value;
  }
};

}  // namespace pipetrain
