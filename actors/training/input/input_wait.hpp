// Measures how long reading the data delayed a step.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "actors/engine/trace.hpp"

namespace pipetrain {

// The times at which samples were read from the dataset, by the step that they are for.
class ReadTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Both are thread-safe.
  void add(std::int64_t step, Clock::time_point begin, Clock::time_point end);
  // Returns those of this step; those of earlier steps are dropped.
  std::vector<ActionTimes> take(std::int64_t step);

 private:
  struct Read {
    std::int64_t step;
    ActionTimes times;
  };
  std::mutex mutex_;
  std::vector<Read> reads_;
};

// Returns the seconds between the beginning of the step and the stage's last action in which samples of the step were
// read while the stage that reads them ran nothing. An upper bound: the stage may have had other reasons to wait.
double input_wait(const std::vector<ActionTimes>& reads, const StageTrace& stage, ReadTimes::Clock::time_point begin);

}  // namespace pipetrain
