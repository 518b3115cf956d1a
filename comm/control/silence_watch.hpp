// Detects processes that have been silent for too long.
#pragma once

#include <algorithm>
#include <chrono>

namespace pipetrain::control {

// Not thread-safe.
class SilenceWatch {
 public:
  using Clock = std::chrono::steady_clock;

  SilenceWatch(Clock::duration heartbeat, Clock::duration silence) : heartbeat_(heartbeat), silence_(silence) {}

  // Called every `heartbeat`. When the call itself comes much too late, this process or its host stood still, and
  // silence says nothing about the others: the watch restarts.
  void tick(Clock::time_point now) {
    if (now - last_tick_ > heartbeat_ + silence_ / 4) afresh_ = now;
    last_tick_ = now;
  }

  // True when a process that was last heard at this time is lost now.
  bool silent(Clock::time_point heard, Clock::time_point now) const { return now - std::max(heard, afresh_) > silence_; }

 private:
  Clock::duration heartbeat_, silence_;
  Clock::time_point last_tick_{}, afresh_{};
};

}  // namespace pipetrain::control
