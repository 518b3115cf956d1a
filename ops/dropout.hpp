// Dropout (Srivastava et al. 2014) without a stored mask: which elements of a tensor are dropped is drawn by Philox4x32-10
// (Salmon et al. 2011) from where they are in the logical tensor, so forward and backward of every layout draw the same.
#pragma once

#include <cstdint>

#include "core/philox.hpp"

namespace pipetrain {

// Of one tensor in one microbatch. An element has a sample, a row (the token in its sequence), a column, and a plane: 0, or for
// attention's probabilities the query head, whose columns are keys. It is kept, times scale(), or becomes 0.
struct Dropout {
  PhiloxKey key{};                 // of the run, the step and the tensor
  std::uint32_t dropped = 0;       // of 65,536 equally likely draws, how many drop; 0: everything is kept as it is
  std::uint32_t first_sample = 0;  // of the microbatch, counted in the step's global batch
  std::uint32_t first_plane = 0;   // of this rank, counted in the whole model

  static constexpr std::uint32_t draws = 65536;
  constexpr bool active() const { return dropped > 0; }
  constexpr float scale() const { return static_cast<float>(draws) / static_cast<float>(draws - dropped); }
};

// Columns whose draws come from one block of Philox words, 16 bits each: 8 n to 8 n + 7.
constexpr std::int64_t dropout_columns = 8;

// The draw of column `of` (0 to 7) in a block of words; the element is dropped where it is below Dropout::dropped.
template <std::size_t lanes>
constexpr std::uint32_t dropout_draw(const PhiloxWords<lanes>& words, std::size_t lane, int of) {
  return words[static_cast<std::size_t>(of / 2)][lane] >> (of % 2 * 16) & 0xffff;
}

}  // namespace pipetrain
