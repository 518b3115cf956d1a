// The share of a step's time in which its stages ran nothing.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "actors/engine/trace.hpp"

namespace pipetrain {

struct StepReport;

// Adds its bubble to the report of each step, one after the other.
class StepBubbles {
 public:
  // The report has the step's trace. A step's bubble is of the time between its first action and its last. `overlaps`: steps
  // may begin before the verdict on the one before, and `next_announced`: the coming one was told to this one. The bubble of a
  // step that was announced is then of the time from each stage's last N to its N of this step, which counts what lies between
  // two steps too; and the report's `redone` stays only where a stage went ahead before the verdict.
  void add_to(StepReport& report, bool overlaps, bool next_announced);

 private:
  void add_overlapped(StepReport& report, bool announced);

  struct Tail {
    std::chrono::steady_clock::time_point norm_end{};
    double busy = 0;  // seconds behind it, in the same step
  };
  std::vector<Tail> tails_;  // by stage
  bool announced_ = false;   // the coming step, to the one before it
};

// Whether a stage went ahead in this step before the verdict.
bool previewed(const std::vector<StageTrace>& stages);

}  // namespace pipetrain
