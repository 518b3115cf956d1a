// Copies a rank's state to host memory after each step: see StateCopies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/training/copies/state_copier.hpp"
#include "actors/training/copies/state_copies.hpp"

namespace pipetrain {

class BuddyRing;
struct BuddyPlace;

// keep() and protect() are for the rank's worker.
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

  const Setup setup_;
  StateCopier copier_;
  std::size_t elements_;
  std::int64_t step_ = -1;  // the last one
};

}  // namespace pipetrain
