// Two jobs of one rank that enqueue alternately: each runs until it passes the turn or ends.
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
  // name: of the thread that runs first jobs.
  explicit Turns(const std::string& name) : worker_(name) {}

  // Runs both, `first` on a thread of its own, `second` on the caller's: never at the same time, and each sees what the
  // other has done. `first` begins. Returns when both have ended. When one fails, the other is stopped, and the failure
  // is thrown. One call at a time.
  void run(const std::function<void()>& first, const std::function<void()>& second);
  // Called by the running job: lets the other one run until it passes the turn back or ends. Does nothing where the other has
  // ended, and outside of run(). Throws where the other has failed, which ends the calling job: do not catch this.
  void pass();
  static constexpr int none = -1;
  // Returns the number of the running job, 0 or 1; none outside of run(). Only for that job itself.
  int running() const { return running_; }

 private:
  struct LeftOff {};  // thrown by pass()

  void run_one(int job, const std::function<void()>& work);
  void end(int job);

  std::array<std::binary_semaphore, 2> turn_{std::binary_semaphore(0), std::binary_semaphore(0)};
  std::binary_semaphore first_ended_{0};
  std::array<bool, 2> runs_{};  // these and the next are accessed only by the job that has the turn
  int running_ = none;
  std::exception_ptr failure_;
  Worker worker_;  // last: it uses the members above
};

}  // namespace pipetrain
