// Copies a rank's state to host memory after each step: see StateCopies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/ranks/worker.hpp"
#include "actors/training/copies/state_copier.hpp"
#include "actors/training/copies/state_copies.hpp"

namespace pipetrain {

class BuddyRing;
struct BuddyPlace;

// keep() and protect() are for the rank's worker. A GPU's copies pass through staging memory until begin_locking() has
// locked the shared memory that they go to; then the GPU itself writes them.
class RankCopies {
 public:
  struct Setup {
    int rank = 0;
    Device* device = nullptr;
    std::shared_ptr<StateCopies> copies;  // of the rank
    std::shared_ptr<BuddyPlace> buddies;  // null: nothing is passed on
  };
  // Reserves the memory of the copies. Throws Error(out_of_memory).
  RankCopies(Setup setup, std::vector<HeldState> source);
  // Waits for a copy that is in progress. What is locked stays so for those who go on with the copies.
  ~RankCopies();

  // Starts to lock the copies' memory for a GPU on a thread, unless that has begun. The first copy does so too; a rank that
  // does not continue from copies may do so before, since new pages take longest.
  void begin_locking();
  // Copies the state after this training step, unless that has been done. applied_steps: those that the optimizer applied.
  void keep(std::int64_t step, std::int64_t applied_steps);
  // Work that follows may change the state: see StateCopier::protect().
  void protect(Stream& stream) { copier_.protect(stream); }
  // Both wait on the host, and throw where the copy failed: until the last copy is whole, and until it is where its loss with
  // this process loses nothing.
  void wait_for_copy() { copier_.wait(); }
  void wait_until_held();
  std::size_t elements() const { return elements_; }  // of a copy
  StagedTransfers* staged() { return copier_.staged(); }

 private:
  BuddyRing* buddies() const;
  void lock_chunks();

  const Setup setup_;
  std::size_t elements_;
  std::shared_ptr<LockedChunks> locked_;  // null: nothing is to be locked
  StateCopier copier_;
  std::int64_t step_ = -1;  // the last one
  std::atomic<bool> ends_{false};
  std::optional<Worker> locking_;  // last: its job uses the members above
};

}  // namespace pipetrain
