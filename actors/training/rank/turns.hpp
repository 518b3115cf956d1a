// Two jobs of one rank that enqueue in turns: each goes on until it passes the turn or ends.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <semaphore>
#include <string>

#include "actors/ranks/worker.hpp"

namespace pipetrain {

class Turns {
 public:
  // The name of the thread that runs first jobs.
  explicit Turns(const std::string& name) : worker_(name) {}

  // Runs both, `first` on a thread of its own, `second` on the caller's: never at the same time, and what one has done is seen
  // by the other. `first` begins. Returns when both have ended. Where one fails, the other one is left off, and its failure is
  // thrown. One call at a time.
  void run(const std::function<void()>& first, const std::function<void()>& second);
  // Called by the job that runs: lets the other one go on, until it passes the turn back or ends. Does nothing where the other
  // has ended, and outside of run(). Throws where the other has failed, so that the job does not go on without it: let that
  // through.
  void pass();
  static constexpr int none = -1;
  // Of the job that runs: 0 or 1; none outside of run(). By the job itself.
  int running() const { return running_; }

 private:
  struct LeftOff {};  // thrown by pass()

  void run_one(int job, const std::function<void()>& work);
  void end(int job);

  std::array<std::binary_semaphore, 2> turn_{std::binary_semaphore(0), std::binary_semaphore(0)};
  std::binary_semaphore first_ended_{0};
  std::array<bool, 2> runs_{};  // these and the next: read and written by whoever has the turn
  int running_ = none;
  std::exception_ptr failure_;
  Worker worker_;  // last: it uses the members above
};

}  // namespace pipetrain
