#include "actors/training/offload/offloaded_blocks.hpp"

#include <algorithm>
#include <cmath>

namespace pipetrain {
namespace {

// Moving a block takes milliseconds, many times the delay of a disk or of a copy engine; a few blocks take little memory.
constexpr std::size_t largest_block = std::size_t{4} << 20;
constexpr std::size_t smallest_block = std::size_t{64} << 10;
// A small model has at least as many blocks, so that its transfers overlap too.
constexpr std::size_t least_blocks = 8;
constexpr std::size_t most_slots = 3;  // one is fetched, one computed on, one stored

std::size_t block_length(std::size_t elements) {
  const std::size_t wanted = (elements + least_blocks - 1) / least_blocks;
  const std::size_t whole = (wanted + smallest_block - 1) / smallest_block * smallest_block;
  return std::clamp(whole, smallest_block, largest_block);
}

}  // namespace

OffloadedBlocks::OffloadedBlocks(const Setup& setup) : setup_(setup), block_(block_length(setup.elements)) {
  constexpr double rounding = 1e-9;  // a product such as 0.7 * 10 may be a little more than 7
  if (setup_.arrays == 0) return;
  const auto all = static_cast<double>(count());
  outside_ = std::min(count(), static_cast<std::size_t>(std::ceil(std::max(0.0, setup_.fraction * all - rounding))));
}

Region OffloadedBlocks::region(std::size_t block) const {
  return {block * block_, std::min(setup_.elements, (block + 1) * block_)};
}

std::size_t OffloadedBlocks::block_at(std::size_t turn) const {
  if (setup_.window_bytes > 0) return turn;
  // The first block after which more than `turn` are outside.
  return ((turn + 1) * count() + outside_ - 1) / outside_ - 1;
}

std::size_t OffloadedBlocks::slots() const { return std::min(moving(), most_slots); }

std::size_t OffloadedBlocks::begin(std::size_t array, std::size_t element) const {
  const std::size_t block = block_of(element), outside = outside_before(block);
  const std::size_t place = is_outside(block) ? outside : block - outside;
  return place * block_bytes() + (array * block_ + element % block_) * sizeof(float);
}

}  // namespace pipetrain
