// The draws of ops/dropout.hpp in kernels. Device code only.
#pragma once

#include "ops/dropout.hpp"

namespace pipetrain::cuda {

// Returns the words of columns 8 `block` to 8 `block` + 7.
__device__ inline PhiloxWords<1> dropout_words(const Dropout& dropout, std::uint32_t block, std::uint32_t row,
                                               std::uint32_t sample, std::uint32_t plane) {
  PhiloxWords<1> words;
  words[0][0] = block, words[1][0] = row, words[2][0] = sample, words[3][0] = plane;
  philox(dropout.key, words);
  return words;
}

// Returns the factor for the element of this column: 0, or the scale.
__device__ inline float dropout_factor(const Dropout& dropout, const PhiloxWords<1>& words, int column) {
  return dropout_draw(words, 0, column % static_cast<int>(dropout_columns)) < dropout.dropped ? 0.0F : dropout.scale();
}

}  // namespace pipetrain::cuda
