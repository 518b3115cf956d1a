// Tables that give the code of a value (ops/eight_bit.hpp) by two look-ups and one comparison, where nearest_code() compares
// eight times. GPUs keep them in shared memory.
//
// The values whose code is c end at last[c]. A bin has the values of one sign and exponent whose mantissas begin with the same
// seven bits. Neighbours of the map lie further apart than the ends of a bin, so that at most one code ends within it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ops/eight_bit.hpp"

namespace pipetrain {

struct EightBitSearch {
  static constexpr int dropped_bits = 16, octaves = 23;
  // The first bin begins with zero and ends just above 2^-23, below every value whose code is not zero's; the last has those
  // from 1 on.
  static constexpr int bins = (octaves << (23 - dropped_bits)) + 1;

  float last[eight_bit_codes];
  std::uint8_t first[2][bins];  // the code of a bin's smallest value; [0]: positive values, [1]: negative ones

  // Returns nearest_code(map, value) of the map that the tables were made from.
  PIPETRAIN_HOST_DEVICE std::uint8_t code(float value) const {
    if (value != value) return 1;
    const std::uint32_t bits = bits_of(value);
    const std::uint8_t code = first[bits >> 31][bin_of(bits & 0x7fffffffU)];
    return static_cast<std::uint8_t>(code + (last[code] < value ? 1 : 0));
  }

  // Make one entry of a table. `bin` counts those of both signs: negative ones follow the others.
  PIPETRAIN_HOST_DEVICE void make_last(const float* map, int code) { last[code] = last_value(map, code); }
  PIPETRAIN_HOST_DEVICE void make_first(const float* map, int bin) {
    const bool is_negative = bin >= bins;
    const int of_sign = is_negative ? bin - bins : bin;
    first[is_negative ? 1 : 0][of_sign] = nearest_code(map, is_negative ? -largest_of(of_sign) : smallest_of(of_sign));
  }

  // The magnitudes at the ends of a bin.
  PIPETRAIN_HOST_DEVICE static float smallest_of(int bin) {
    return bin == 0 ? 0.0F : float_of(static_cast<std::uint32_t>(bin + first_kept) << dropped_bits);
  }
  PIPETRAIN_HOST_DEVICE static float largest_of(int bin) {
    if (bin == bins - 1) return std::numeric_limits<float>::infinity();
    return float_of((static_cast<std::uint32_t>(bin + 1 + first_kept) << dropped_bits) - 1);
  }

 private:
  static constexpr int first_kept = (127 - octaves) << (23 - dropped_bits);  // the kept bits of the first bin

  PIPETRAIN_HOST_DEVICE static int bin_of(std::uint32_t magnitude) {
    const int bin = static_cast<int>(magnitude >> dropped_bits) - first_kept;
    return bin < 0 ? 0 : bin < bins ? bin : bins - 1;
  }

  PIPETRAIN_HOST_DEVICE static std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  PIPETRAIN_HOST_DEVICE static float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  // Rounding moves the end a little from the middle of two values.
  PIPETRAIN_HOST_DEVICE static float last_value(const float* map, int code) {
    if (code == static_cast<int>(eight_bit_codes) - 1) return std::numeric_limits<float>::infinity();
    const float low = map[code], high = map[code + 1];
    const auto is_nearer = [&](float value) { return value - low <= high - value; };
    float value = low + (high - low) / 2;
    while (!is_nearer(value)) value = nextafterf(value, low);
    for (float next = nextafterf(value, high); is_nearer(next); next = nextafterf(value, high)) value = next;
    return value;
  }
};

}  // namespace pipetrain
