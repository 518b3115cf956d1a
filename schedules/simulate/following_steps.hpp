// Simulates consecutive steps to find the time of a step in the steady state. The time includes the pause between two
// steps, most of which disappears if steps begin before the previous verdict.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

struct FollowingSteps {
  double step = 0;    // from the end of a step to the end of the next one
  double bubble = 0;  // the mean share of it in which a stage runs nothing but previews (V)
};

// Every step announces the next one. early: by stage, true where it begins before the verdict; the other stages begin at
// the verdict. If early is empty, a step begins when all stages have ended the previous one.
struct StepsToFollow {
  std::vector<bool> early;
  int run_ahead = 2;
  SlotLife life{};
};

// Drives the stages' own protocol in planned order, with the slots of `needs`, which validate() returned for the plan
// and `life`. Every verdict confirms early work. The plan must end its steps with N and O. Deterministic to the bit.
// Throws std::invalid_argument for costs that do not fit, and for plans for which early steps are not built: with
// slices, moves of activations, custom actions, or braids that hide communication.
FollowingSteps simulate_following(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                                  const StepsToFollow& how = {});

// Returns for each stage: true if it ends a step of the plan half a forward or more before the last stage, where F = I = W, and
// so has the time to begin the coming step early. `needs`: what validate() gave.
std::vector<bool> stages_that_wait(const Plan& plan, const std::vector<StageNeeds>& needs);

}  // namespace pipetrain::schedules
