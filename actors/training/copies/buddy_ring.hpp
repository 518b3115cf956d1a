// A process's buddy is the next process of a ring: it receives the copies of the states that no other process has, so that
// none is lost with its process. After each step all processes pass their copies on at once, in the background; the next
// optimizer step waits until they have arrived, so a state is in two processes before it changes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/training/copies/state_copies.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// The copies that one process passes on: ranks, with the elements of each copy, in this order.
struct PassedCopies {
  std::vector<int> ranks;
  std::vector<std::size_t> elements;
  std::size_t bytes() const;  // with their headers
};

class BuddyRing {
 public:
  struct Setup {
    std::shared_ptr<Group> ring;                         // one member in each process
    Device* device = nullptr;                            // of this member; must outlive this
    PassedCopies own, received;                          // `received`: those of the process before this one
    std::size_t bytes = 0;                               // the largest PassedCopies::bytes() of all processes
    std::map<int, std::shared_ptr<StateCopies>> copies;  // of all ranks of `own` and `received`
  };
  // Throws Error(out_of_memory).
  explicit BuddyRing(Setup setup);
  // Waits for a transfer that is in progress; abort() first if other processes are gone.
  ~BuddyRing();
  BuddyRing(const BuddyRing&) = delete;
  BuddyRing& operator=(const BuddyRing&) = delete;

  // --- thread-safe ---
  // The rank's copy after this step is whole. Once those of all passed ranks are, they are passed on. The process passes
  // on every step once.
  void copied(int rank, std::int64_t step);
  // Blocks until the copies after this step have arrived here and at the buddy. Throws the cause of an abort.
  void wait(std::int64_t step);
  void abort(std::exception_ptr cause);

 private:
  void pass_on(std::int64_t step);
  void pack(std::int64_t step);
  void unpack();

  const Setup setup_;
  Buffer outgoing_, incoming_;
  std::unique_ptr<Stream> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::size_t> whole_;  // number of passed ranks with a whole copy, by step
  std::int64_t arrived_ = -1;                  // the last step whose copies have arrived
  std::exception_ptr cause_;
};

// The place of the ring that ranks hold before it can be opened, because its sizes are those of their states.
struct BuddyPlace {
  std::unique_ptr<BuddyRing> ring;  // set before the first step
};

}  // namespace pipetrain
