// Arrays of f32 outside of the device that are fetched block by block, changed on the device, and stored: while one
// block is computed on, later ones are fetched and earlier ones stored, each on a stream of its own.
//
// All arrays have the same length. A block is the same range of elements of all arrays, contiguous in the storage.
// Ranges of flat arrays (OffloadedArray) may be moved along with the block of the same elements: these are its windows.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload/offload_storage.hpp"
#include "actors/training/offload/offload_streams.hpp"
#include "actors/training/offload/offloaded_array.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// How the arrays are divided into blocks, and the memory that they take. Pure.
class OffloadedBlocks {
 public:
  // window_bytes: bytes of an element in all windows together.
  OffloadedBlocks(std::size_t arrays, std::size_t elements, std::size_t window_bytes = 0);

  std::size_t count() const { return (elements_ + block_ - 1) / block_; }
  std::size_t block_of(std::size_t element) const { return element / block_; }
  Region region(std::size_t block) const;  // elements of each array
  std::size_t slots() const;               // blocks that are on the device at once

  // Return the bytes of one block of the arrays, of all arrays in the storage, of a block's slot with its windows, and of all
  // slots.
  std::size_t block_bytes() const { return arrays_ * block_ * sizeof(float); }
  std::size_t outside_bytes() const { return count() * block_bytes(); }
  std::size_t slot_bytes() const { return block_bytes() + block_ * window_bytes_; }
  std::size_t device_bytes() const { return slots() * slot_bytes() + OffloadStorage::granularity; }
  // Returns the byte offset of an array's element in the storage.
  std::size_t begin(std::size_t array, std::size_t element) const;
  std::size_t arrays() const { return arrays_; }
  std::size_t block_elements() const { return block_; }

 private:
  std::size_t arrays_, elements_, block_, window_bytes_;
};

// Not thread-safe: used by the rank's worker.
class OffloadedStates {
 public:
  // Moves the elements of each block of this array along.
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
  // Allocates zeros. Throws as OffloadStorage does.
  explicit OffloadedStates(const Setup& setup);

  const OffloadedBlocks& blocks() const { return setup_.blocks; }
  // Begins to fetch the first blocks, while the rank computes other things until it acquires them.
  void fetch_ahead();
  struct Block {
    std::vector<Tensor> arrays, windows;  // of whole blocks; a window that is not fetched has undefined values
  };
  // Returns the block's part of each array on the device, for work that is enqueued on `compute` until release().
  // Blocks are acquired in order, each once, from the first to the last.
  const Block& acquire(std::size_t block);
  // The values that this work changed.
  enum class Change { all, windows, none };
  void release(std::size_t block, Change change);

  // In the next pass over all blocks, only the first `arrays` arrays are fetched.
  void fetch_only(std::size_t arrays);

  // Copies any range of one array from and to the host. read() waits for the device. write(): after settle(), different
  // elements may be written on several threads at once.
  void read(std::size_t array, std::size_t begin, float* values, std::size_t count);
  void write(std::size_t array, std::size_t begin, const float* values, std::size_t count);
  // Waits for the streams, and discards fetched blocks, because the storage may change; they are fetched again.
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
  std::unique_ptr<OffloadStorage> storage_;  // null: there are only windows
  Buffer memory_;
  std::vector<Slot> slots_;
  std::size_t fetched_ = 0;  // blocks of the current pass that have been fetched or are being fetched
  std::size_t arrays_;       // the number of arrays that this pass fetches
};

}  // namespace pipetrain
