// Arrays of f32 that live outside of the device's memory and are brought in block by block, changed there, and brought back:
// while one block is computed on, the next ones come in and the ones before go out, each on a stream of its own.
//
// The arrays have one length. A block is a run of the same elements of all of them; it lies in one piece outside.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload_place.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"
#include "model/parameters.hpp"

namespace pipetrain {

// How the arrays are cut into blocks, and what they take. Pure.
class OffloadedBlocks {
 public:
  OffloadedBlocks(std::size_t arrays, std::size_t elements);

  std::size_t count() const { return (elements_ + block_ - 1) / block_; }
  std::size_t block_of(std::size_t element) const { return element / block_; }
  Region region(std::size_t block) const;  // elements of each array
  std::size_t slots() const;               // blocks that are on the device at once

  // Bytes: of one block, of all of them outside, and of the slots on the device.
  std::size_t block_bytes() const { return arrays_ * block_ * sizeof(float); }
  std::size_t outside_bytes() const { return count() * block_bytes(); }
  std::size_t device_bytes() const { return slots() * block_bytes() + OffloadPlace::granularity; }
  // Where an element of an array is, outside.
  std::size_t begin(std::size_t array, std::size_t element) const;
  std::size_t arrays() const { return arrays_; }
  std::size_t block_elements() const { return block_; }

 private:
  std::size_t arrays_, elements_, block_;
};

// Not thread-safe: used by the rank's worker, and while it loads, by one thread at a time.
class OffloadedStates {
 public:
  struct Setup {
    Device& device;
    Stream& compute;  // of the rank
    OffloadedBlocks blocks;
    std::filesystem::path folder;  // of a disk; empty: host memory
    std::string name;              // of the rank, for errors
  };
  // Allocates; all zero. Throws what the places throw.
  explicit OffloadedStates(const Setup& setup);

  const OffloadedBlocks& blocks() const { return setup_.blocks; }
  // Begins to bring in the first blocks, beside whatever the rank computes until it acquires them.
  void fetch_ahead();
  // The block's part of each array, on the device, for work that is enqueued on `compute` until release(). Blocks are acquired
  // in order, each once, from the first to the last.
  const std::vector<Tensor>& acquire(std::size_t block);
  // With what that work changed, or as it was.
  enum class Change { stored, none };
  void release(std::size_t block, Change change);

  // Elements of one array, from and to the host, in any place. Waits for the device.
  void read(std::size_t array, std::size_t begin, float* values, std::size_t count);
  void write(std::size_t array, std::size_t begin, const float* values, std::size_t count);

  // That fetches and stores run on.
  std::vector<Stream*> streams() const { return {in_.get(), out_.get()}; }

 private:
  struct Slot {
    char* memory = nullptr;
    std::vector<Tensor> tensors;  // of a whole block
    std::unique_ptr<Event> fetched, computed, stored;
  };
  Slot& slot_of(std::size_t block) { return slots_[block % slots_.size()]; }
  void fetch(std::size_t block);
  void settle();

  Setup setup_;
  std::unique_ptr<OffloadPlace> place_;
  Buffer memory_;
  std::vector<Slot> slots_;
  std::unique_ptr<Stream> in_, out_;  // after what they use
  std::size_t fetched_ = 0;           // blocks of the current pass that are in or on their way
};

}  // namespace pipetrain
