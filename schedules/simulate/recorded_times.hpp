// The times of a step that was run, taken apart into what can be edited (how long actions and messages took) and what follows.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_needs.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

// simulate() of the same plan with these times gives the step that they are of, but for rounding and the ends of sums over
// several stages. Each is of one replica.
struct RecordedTimes {
  std::vector<std::vector<double>> times;   // [stage][place in the stage's list] of the action itself
  std::vector<std::vector<double>> delays;  // likewise: from when all was there that it needs to its start
  // [virtual stage that receives][microbatch]: from the end of the action that made it until it was there. Where an action
  // waited for it, this is known; elsewhere it is the median of those of this queue, or what the record leaves room for.
  std::vector<std::vector<double>> activations, gradients;

  // A stage's actions take `factor` times as long.
  void scale_stage(int stage, double factor);
  // Messages between stages a and b do, both ways.
  void scale_link(const Placement& placement, int a, int b, double factor);
  // What each edge's messages take (the median), as summarize() takes it: [virtual stage before it].
  std::vector<double> transfers() const;
};

// The plan's lists are in the order in which the stages launched them; the timeline has a row for each stage with just these
// actions. Throws std::invalid_argument where it has not.
RecordedTimes recorded_times(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life,
                             const Timeline& timeline);

}  // namespace pipetrain::schedules
