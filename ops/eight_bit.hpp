// AdamW whose moments take 8 bits an element: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", in the form
// of bitsandbytes. A moment is cut into blocks of 256 elements. Of each block its largest magnitude is kept in fp32, and of
// each element the code of the nearest of 256 multiples of it, from a map whose values lie close near zero.
//
// The largest magnitude is chosen so that values that were read back give the same codes and magnitudes again: the map's
// largest value is 1, but its smallest is above -1, so a block whose extreme is negative is scaled by one of the magnitudes
// that give this extreme, the smallest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/tensor.hpp"
#include "ops/host_device.hpp"
#include "ops/update.hpp"

namespace pipetrain {

constexpr std::int64_t eight_bit_block = 256;
constexpr std::size_t eight_bit_codes = 256;

// The values of the codes, rising. Codes of the first moment have signs, those of the second have none.
using EightBitMap = std::array<float, eight_bit_codes>;

// Each decade from 1e-6 to 1 is divided into twice as many values as the one below: the means of neighbours among evenly
// spaced numbers from a tenth to the whole of it. Zero and one are added.
constexpr EightBitMap eight_bit_map(bool has_signs) {
  constexpr float scales[] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  EightBitMap map{};
  std::size_t zero = has_signs ? 127 : 0, next = zero + 1;
  map[zero] = 0;
  for (std::size_t decade = 0; decade < std::size(scales); ++decade) {
    const int count = (has_signs ? 1 : 2) << decade;
    const float step = (1.0F - 0.1F) / static_cast<float>(count);
    const auto boundary = [&](int i) {  // from the nearer end and rounded once, as PyTorch computes it
      return static_cast<float>(i < (count + 1) / 2 ? double{0.1F} + double{step} * i : 1.0 - double{step} * (count - i));
    };
    for (int i = 0; i < count; ++i, ++next) {
      map[next] = scales[decade] * ((boundary(i) + boundary(i + 1)) / 2.0F);
      if (has_signs) map[2 * zero - next] = -map[next];
    }
  }
  map[next] = 1;
  return map;
}

// Returns the code of the nearest value; of two equally near ones the smaller.
PIPETRAIN_HOST_DEVICE constexpr std::uint8_t nearest_code(const float* map, float value) {
  int low = 0, high = eight_bit_codes - 1;  // map[low] <= value <= map[high], or the value is beyond the ends
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (map[middle] <= value ? low : high) = middle;
  }
  return static_cast<std::uint8_t>(value - map[low] <= map[high] - value ? low : high);
}

// Returns the smallest magnitude that, multiplied with the map's smallest value, gives this extreme. extreme: negative.
PIPETRAIN_HOST_DEVICE inline float magnitude_of_extreme(float smallest, float extreme) {
  float magnitude = extreme / smallest;
  while (magnitude * smallest > extreme) magnitude = nextafterf(magnitude, 2 * magnitude);
  for (float below = nextafterf(magnitude, 0); below * smallest <= extreme && below > 0; below = nextafterf(below, 0))
    magnitude = below;
  return magnitude;
}

// Returns the largest magnitude of a block, from its smallest and largest value. Either all values are new, or they were read
// from a state in 8 bits, perhaps one with other blocks.
PIPETRAIN_HOST_DEVICE inline float block_magnitude(const float* map, float least, float most) {
  return most >= -least ? most : magnitude_of_extreme(map[0], least * -map[0]);
}
PIPETRAIN_HOST_DEVICE inline float restored_magnitude(const float* map, float least, float most) {
  return most > -least ? most : least < 0 ? magnitude_of_extreme(map[0], least) : most;
}

// A moment of a range of elements that begins at a block of its tensor, in the device's memory.
struct EightBitState {
  std::uint8_t* codes = nullptr;  // of each element
  float* magnitudes = nullptr;    // of each block
};

struct EightBitUpdateArgs {
  Tensor weight, grad;                  // f32, of one length; the weight changes in place
  std::array<EightBitState, 2> states;  // the first and the second moment
  std::optional<Tensor> rounded = {};   // as in UpdateArgs
  bool preview = false;
  AdamW rule;
};

// Reads values from codes, and writes them as codes. count: elements. In the host's memory.
void read_eight_bits(const EightBitState& state, bool has_signs, std::int64_t count, float* values);
void write_eight_bits(const float* values, bool has_signs, std::int64_t count, const EightBitState& state);

}  // namespace pipetrain
