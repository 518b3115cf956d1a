// Arrays of f32 of which all blocks, or a share of them, are outside of the device. Those are fetched block by block, changed
// on the device, and stored: while one block is computed on, later ones are fetched and earlier ones stored, each on a stream
// of its own. Blocks that stay are changed in place.
//
// Ranges of flat arrays (OffloadedArray) may be moved along with the block of the same elements: these are its windows.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/training/offload/offload_storage.hpp"
#include "actors/training/offload/offload_streams.hpp"
#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/offload/offloaded_blocks.hpp"
#include "core/device.hpp"
#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

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
  ~OffloadedStates() { finish_before_freeing(setup_.compute); }
  OffloadedStates(const OffloadedStates&) = delete;
  OffloadedStates& operator=(const OffloadedStates&) = delete;

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
  // elements may be written on several threads at once; those of blocks that stay are copied one after the other.
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
  Slot& slot_at(std::size_t turn) { return slots_[turn % slots_.size()]; }
  Slot make_slot(char* memory) const;
  std::vector<Tensor> arrays_at(char* memory) const;
  char* resident(std::size_t array, std::size_t element) const { return resident_ + setup_.blocks.begin(array, element); }
  // Fetches the block of the next turn.
  void fetch_next();
  // Calls work(begin, count) for the part of the range in each block.
  template <class Work>
  void for_each_block(std::size_t begin, std::size_t count, const Work& work) const;
  void copy_resident(void* to, const void* from, std::size_t count);

  Setup setup_;
  std::unique_ptr<OffloadStorage> storage_;  // null: there are only windows
  Buffer memory_;
  std::vector<Slot> slots_;
  char* resident_ = nullptr;  // the memory of blocks that stay
  Block here_;                // the acquired block, if its arrays stay
  std::mutex turn_;           // serializes threads that write to blocks that stay
  std::size_t fetched_ = 0;   // moving blocks of the current pass that have been fetched or are being fetched
  std::size_t arrays_;        // the number of arrays that this pass fetches
};

}  // namespace pipetrain
