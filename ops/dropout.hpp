// Dropout (Srivastava et al. 2014) without a stored mask. Philox4x32-10 (Salmon et al. 2011) decides which elements are
// dropped, from their indices in the logical tensor, so that forward and backward of every layout draw the same.
#pragma once

#include <cstdint>

#include "core/philox.hpp"

namespace pipetrain {

// The dropout of one tensor in one microbatch. An element has a sample, a row (the token in its sequence), a
// column, and a plane: 0, or for attention's probabilities the query head, whose columns are keys. An element
// is multiplied by scale(), or becomes 0.
struct Dropout {
  PhiloxKey key{};                 // for the run, the step and the tensor
  std::uint32_t dropped = 0;       // how many of 65,536 equally likely draws drop; 0: nothing is dropped
  std::uint32_t first_sample = 0;  // the microbatch's first sample, counted in the step's global batch
  std::uint32_t first_plane = 0;   // this rank's first plane, counted in the whole model

  static constexpr std::uint32_t draws = 65536;
  constexpr bool active() const { return dropped > 0; }
  constexpr float scale() const { return static_cast<float>(draws) / static_cast<float>(draws - dropped); }
};

// The number of columns whose draws come from one block of Philox words, 16 bits each: 8 n to 8 n + 7.
constexpr std::int64_t dropout_columns = 8;

// Returns the draw of column `of` (0 to 7) in a block of words; the element is dropped if it is below Dropout::dropped.
template <std::size_t lanes>
constexpr std::uint32_t dropout_draw(const PhiloxWords<lanes>& words, std::size_t lane, int of) {
  return words[static_cast<std::size_t>(of / 2)][lane] >> (of % 2 * 16) & 0xffff;
}

}  // namespace pipetrain
