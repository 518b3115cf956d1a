// Separates the times of a step that was run into those that can be edited (durations of actions and messages) and
// those that follow.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_needs.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

// simulate() of the same plan with these times reproduces the step, except for rounding and the ends of sums over
// several stages. All times are of one replica.
struct RecordedTimes {
  std::vector<std::vector<double>> times;   // [stage][position in the stage's list]: duration of the action
  std::vector<std::vector<double>> delays;  // [stage][position]: from when all inputs were there to its start
  // [receiving virtual stage][microbatch]: from the end of the action that made it to its arrival. Known where an
  // action waited for it; elsewhere the median of this queue's known ones, or less where the record requires it.
  std::vector<std::vector<double>> activations, gradients;

  // Makes a stage's actions take `factor` times as long.
  void scale_stage(int stage, double factor);
  // Makes messages between stages a and b take `factor` times as long, in both directions.
  void scale_link(const Placement& placement, int a, int b, double factor);
  // Returns the median duration of each edge's messages, as summarize() takes it: [virtual stage before the edge].
  std::vector<double> transfers() const;
};

// The plan's lists must be in the order in which the stages launched them, and the timeline must have a row for each
// stage with just these actions (else std::invalid_argument).
RecordedTimes recorded_times(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life,
                             const Timeline& timeline);

}  // namespace pipetrain::schedules
