// Measures the share of a step's time in which its stages ran nothing.
#pragma once

#include <chrono>
#include <vector>

#include "actors/engine/trace.hpp"

namespace pipetrain {

struct StepReport;

// Adds the bubble of each step to its report. Reports must come in order.
class StepBubbles {
 public:
  // The report must have the step's trace. A step's bubble covers the time between its first action and its last. `overlaps`:
  // steps may begin before the verdict on the step before. `next_announced`: this step was given the coming one. The bubble of
  // an announced step covers the time from each stage's previous N to its N of this step, so it includes the time between the
  // steps; and the report's `redone` stays true only where a stage did begin before the verdict.
  void add_to(StepReport& report, bool overlaps, bool next_announced);

 private:
  void add_overlapped(StepReport& report, bool announced);

  struct Tail {
    std::chrono::steady_clock::time_point norm_end{};
    double busy = 0;  // seconds after it, in the same step
  };
  std::vector<Tail> tails_;  // by stage
  bool announced_ = false;   // the coming step was announced to this one
};

// Returns true when a stage began the next step before this one's verdict.
bool previewed(const std::vector<StageTrace>& stages);

}  // namespace pipetrain
