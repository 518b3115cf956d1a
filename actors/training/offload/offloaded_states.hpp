// Arrays of f32 that live outside of the device's memory and are brought in block by block, changed there, and brought back:
// while one block is computed on, the next ones come in and the ones before go out, each on a stream of its own.
//
// The arrays have one length. A block is a run of the same elements of all of them; it lies in one piece outside. Runs of flat
// arrays (OffloadedArray) may come or go with the blocks of the same elements: windows.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload/offload_place.hpp"
#include "actors/training/offload/offload_streams.hpp"
#include "actors/training/offload/offloaded_array.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// How the arrays are cut into blocks, and what they take. Pure.
class OffloadedBlocks {
 public:
  // window_bytes: of an element in all windows together.
  OffloadedBlocks(std::size_t arrays, std::size_t elements, std::size_t window_bytes = 0);

  std::size_t count() const { return (elements_ + block_ - 1) / block_; }
  std::size_t block_of(std::size_t element) const { return element / block_; }
  Region region(std::size_t block) const;  // elements of each array
  std::size_t slots() const;               // blocks that are on the device at once

  // Bytes: of one block of the arrays, of all of them outside, of a block's slot with its windows, and of all slots.
  std::size_t block_bytes() const { return arrays_ * block_ * sizeof(float); }
  std::size_t outside_bytes() const { return count() * block_bytes(); }
  std::size_t slot_bytes() const { return block_bytes() + block_ * window_bytes_; }
  std::size_t device_bytes() const { return slots() * slot_bytes() + OffloadPlace::granularity; }
  // Where an element of an array is, outside.
  std::size_t begin(std::size_t array, std::size_t element) const;
  std::size_t arrays() const { return arrays_; }
  std::size_t block_elements() const { return block_; }

 private:
  std::size_t arrays_, elements_, block_, window_bytes_;
};

// Not thread-safe: used by the rank's worker.
class OffloadedStates {
 public:
  // Of an array whose elements are those of the blocks.
  struct Window {
    OffloadedArray* array = nullptr;
    bool fetched = false, stored = false;
  };
  struct Setup {
    Device& device;
    Stream& compute;  // of the rank
    OffloadStreams& streams;
    OffloadedBlocks blocks;
    std::vector<Window> windows;
    std::filesystem::path folder;  // of a disk; empty: host memory
    std::string name;              // of the rank, for errors
  };
  // Allocates; all zero. Throws what the places throw.
  explicit OffloadedStates(const Setup& setup);

  const OffloadedBlocks& blocks() const { return setup_.blocks; }
  // Begins to bring in the first blocks, beside whatever the rank computes until it acquires them.
  void fetch_ahead();
  struct Block {
    std::vector<Tensor> arrays, windows;  // of whole blocks; a window that is not fetched has any values
  };
  // The block's part of each array, on the device, for work that is enqueued on `compute` until release(). Blocks are acquired
  // in order, each once, from the first to the last.
  const Block& acquire(std::size_t block);
  // What that work changed.
  enum class Change { all, windows, none };
  void release(std::size_t block, Change change);

  // Of the next blocks, from the first to the last, only so many arrays are brought in, the first ones.
  void fetch_only(std::size_t arrays);

  // Elements of one array, from and to the host, in any place. read() waits for the device. write(): after settle(), different
  // elements on several threads at once.
  void read(std::size_t array, std::size_t begin, float* values, std::size_t count);
  void write(std::size_t array, std::size_t begin, const float* values, std::size_t count);
  // Waits for the streams. What was fetched ahead is fetched again: it may change outside.
  void settle();

 private:
  struct Slot {
    char* memory = nullptr;
    Block block;
    std::unique_ptr<Event> fetched, computed, stored;
  };
  Slot& slot_of(std::size_t block) { return slots_[block % slots_.size()]; }
  Slot make_slot(char* memory) const;
  void fetch(std::size_t block);

  Setup setup_;
  std::unique_ptr<OffloadPlace> place_;  // null: there are only windows
  Buffer memory_;
  std::vector<Slot> slots_;
  std::size_t fetched_ = 0;  // blocks of the current pass that are in or on their way
  std::size_t arrays_;       // that it brings in
};

}  // namespace pipetrain
