// Copies in host memory of everything that a rank keeps between steps, as it was after each of its latest steps. They
// outlive the rank, so that a rank that is made anew, in this process or another, continues from one of them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/training/copies/locked_chunks.hpp"
#include "actors/training/copies/shared_memory.hpp"
#include "core/buffer.hpp"

namespace pipetrain {

// A rank keeps two copies. Where it has a buddy, the buddy keeps two more, and both have memory for one in transit.
inline constexpr int copies_alone = 2, copies_with_buddy = 6;

struct StateCopy {
  // Lies beside the values, so that processes that share them know what they are.
  struct Record {
    std::atomic<std::int64_t> step{-1};          // steps done when it was taken; -1: never
    std::atomic<std::int64_t> applied_steps{0};  // those of them that the optimizer applied
    std::atomic<bool> whole{false};              // all values are those after the step
  };
  static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
                "processes share records");

  Record* record = nullptr;
  std::span<float> values;  // of the parts that the rank holds, in their order

  std::int64_t step() const { return record->step; }
  std::int64_t applied_steps() const { return record->applied_steps; }
  bool is_whole() const { return record->whole; }
  void set_whole() { record->whole = true; }
};

// The memory of copies: that of this process, or memory that all processes of the host share and that outlives a process
// which is killed.
enum class CopyMemory { own, shared };

// Used by one rank's worker at a time; of() and steps() also by other threads while no rank writes.
class StateCopies {
 public:
  explicit StateCopies(CopyMemory memory = CopyMemory::own) : kind_(memory) {}
  // The copies of another process, of this many elements each, which this process may continue to write once that one does
  // not. Throws as SharedMemory::open(), and Error(peer_lost) for memory that is too small for them.
  StateCopies(const SharedMemory::Key& key, std::size_t elements);
  StateCopies(const StateCopies&) = delete;
  StateCopies& operator=(const StateCopies&) = delete;

  // Allocates memory for copies of this many elements, before steps begin. Throws Error(out_of_memory).
  void reserve(std::size_t elements);

  // Returns the copy to fill with the state after this step: never the newest whole one. Null where that state has been
  // copied before. Call set_whole() once the values are complete. Throws Error(out_of_memory).
  StateCopy* begin(std::int64_t step, std::int64_t applied_steps, std::size_t elements);

  // Returns the whole copy after this step, or null.
  const StateCopy* of(std::int64_t step) const;
  // Returns the steps of all whole copies, the newest first.
  std::vector<std::int64_t> steps() const;
  // Returns the bytes of memory that the copies have.
  std::size_t bytes() const { return memory_ ? memory_->bytes() : own_.bytes(); }

  bool is_shared() const { return kind_ == CopyMemory::shared; }
  // Returns the memory by which other processes open the copies; null before reserve(), and where it is not shared.
  const SharedMemory* shared() const { return memory_.get(); }
  // Returns the chunks of shared() that are locked for a device, none at first; null where nothing is shared.
  const std::shared_ptr<LockedChunks>& locked() const { return locked_; }
  std::size_t elements() const { return elements_; }  // of each copy

 private:
  struct Records;
  static std::size_t bytes_of(std::size_t elements);
  void place(void* memory, std::size_t elements);

  CopyMemory kind_;
  std::shared_ptr<SharedMemory> memory_;  // null: not allocated, or `own_`
  std::shared_ptr<LockedChunks> locked_;  // of `memory_`
  Buffer own_;
  std::size_t elements_ = 0;
  std::array<StateCopy, 2> copies_;  // without records before memory is allocated
};

// A copy that a rank continues from in place of the state that the job begins with.
struct ContinuedState {
  const StateCopies* copies = nullptr;  // null: none
  std::int64_t step = 0;
};

}  // namespace pipetrain
