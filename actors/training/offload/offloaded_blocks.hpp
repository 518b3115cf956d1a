// OffloadedBlocks divides arrays of f32 into blocks, and determines which blocks are outside of the device. Pure.
//
// All arrays have the same length. A block is the same range of elements of all arrays, contiguous wherever it is. Blocks that
// stay on the device lie evenly between those that are outside, so that they are computed on while others move.
#pragma once

#include <cstddef>

#include "actors/training/offload/offload_storage.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

class OffloadedBlocks {
 public:
  struct Setup {
    std::size_t arrays = 0;        // 0: only windows move (offloaded_states.hpp)
    std::size_t elements = 0;      // of each
    std::size_t window_bytes = 0;  // bytes of an element in all windows together
    double fraction = 1;           // of the blocks that are outside, above 0, rounded up to a whole block
  };
  explicit OffloadedBlocks(const Setup& setup);

  std::size_t count() const { return (setup_.elements + block_ - 1) / block_; }
  std::size_t block_of(std::size_t element) const { return element / block_; }
  Region region(std::size_t block) const;  // elements of each array
  std::size_t arrays() const { return setup_.arrays; }
  std::size_t block_elements() const { return block_; }

  // True when the block's arrays are outside between uses.
  bool is_outside(std::size_t block) const { return outside_before(block + 1) > outside_before(block); }
  // Returns the number of such blocks before this one.
  std::size_t outside_before(std::size_t block) const { return count() > 0 ? block * outside_ / count() : 0; }

  // Blocks that move, because arrays or windows of theirs are outside, take turns in the slots.
  std::size_t moving() const { return setup_.window_bytes > 0 ? count() : outside_; }
  bool moves(std::size_t block) const { return setup_.window_bytes > 0 || is_outside(block); }
  // Returns the block's position among those that move, and the block at a position.
  std::size_t turn(std::size_t block) const { return setup_.window_bytes > 0 ? block : outside_before(block); }
  std::size_t block_at(std::size_t turn) const;
  std::size_t slots() const;

  // Return the bytes of one block of the arrays, of all that are outside, of all that stay, of a slot with its windows, and of
  // all that is on the device.
  std::size_t block_bytes() const { return setup_.arrays * block_ * sizeof(float); }
  std::size_t outside_bytes() const { return outside_ * block_bytes(); }
  std::size_t resident_bytes() const { return (count() - outside_) * block_bytes(); }
  std::size_t slot_bytes() const { return block_bytes() + block_ * setup_.window_bytes; }
  std::size_t device_bytes() const { return slots() * slot_bytes() + resident_bytes() + OffloadStorage::granularity; }
  // Returns the byte offset of an array's element in the storage, or in the memory of the blocks that stay.
  std::size_t begin(std::size_t array, std::size_t element) const;

 private:
  Setup setup_;
  std::size_t block_;        // elements of a block of each array
  std::size_t outside_ = 0;  // blocks
};

}  // namespace pipetrain
