#include "ops/eight_bit.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

constexpr EightBitMap map_with_signs = eight_bit_map(true), map_without_signs = eight_bit_map(false);

const float* map_of(bool has_signs) { return (has_signs ? map_with_signs : map_without_signs).data(); }

}  // namespace

void read_eight_bits(const EightBitState& state, bool has_signs, std::int64_t count, float* values) {
  const float* const map = map_of(has_signs);
  for (std::int64_t i = 0; i < count; ++i) values[i] = map[state.codes[i]] * state.magnitudes[i / eight_bit_block];
}

void write_eight_bits(const float* values, bool has_signs, std::int64_t count, const EightBitState& state) {
  const float* const map = map_of(has_signs);
  for (std::int64_t begin = 0; begin < count; begin += eight_bit_block) {
    const std::int64_t end = std::min(begin + eight_bit_block, count);
    const auto [least, most] = std::minmax_element(values + begin, values + end);
    const float magnitude = restored_magnitude(map, *least, *most);
    state.magnitudes[begin / eight_bit_block] = magnitude;
    for (std::int64_t i = begin; i < end; ++i) state.codes[i] = nearest_code(map, magnitude > 0 ? values[i] / magnitude : 0);
  }
}

}  // namespace pipetrain
