// Encodes and decodes blocks of numbers (comm/compressed/block_code.hpp) on the CPU, with error feedback: what a code cannot
// express is kept and added to the next numbers of the same place (Seide et al. 2014, "1-Bit Stochastic Gradient Descent").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/compressed/block_code.hpp"

namespace pipetrain {

// Encodes values + error, at most one block of them, into the words of a block, and leaves in `error` the difference between
// that sum and what decode_block() makes of it. A sum that is not finite gives a block that decodes to NaN, and leaves the
// errors as they were. Elements that the block lacks are encoded as zeros. Same bits on every call; thread-safe.
void encode_block(BlockCode code, std::span<const float> values, float* error, std::uint32_t* words);
// Writes the numbers of a block, or adds them to `values`.
enum class Decoding { write, add };
void decode_block(BlockCode code, const std::uint32_t* words, std::span<float> values, Decoding decoding);

// Makes the values of a block fresh x value + kept x average.
void average_block(std::span<float> values, const float* averages, float fresh, float kept);

// The sizes of numbers by which they are divided before they are coded: sqrt(unbias x square) + eps.
struct BlockScales {
  const float* squares = nullptr;  // of the first number
  float unbias = 1, eps = 0;

  BlockScales from(std::ptrdiff_t first) const { return {squares + first, unbias, eps}; }
};
void divide_block(std::span<float> values, const BlockScales& scales);
void multiply_block(std::span<float> values, const BlockScales& scales);

}  // namespace pipetrain
