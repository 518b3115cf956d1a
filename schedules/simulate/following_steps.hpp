// Runs steps that follow each other under a virtual clock, to see what a step takes once they have come into their stride: with
// the pause between two steps, and, where steps begin before the verdict on the one before, without most of it.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

struct FollowingSteps {
  double step = 0;    // from the end of a step to the end of the next one
  double bubble = 0;  // the share of it in which a stage, on the average, runs nothing but previews (V)
};

// Every step is told of the next one. early: by stage, whether it begins before the verdict; the others begin at it. Empty: a
// step begins when all stages have ended the one before.
struct StepsToFollow {
  std::vector<bool> early;
  int run_ahead = 2;
  SlotLife life{};
};

// Drives the stages' own protocol in planned order, with the slots of `needs`, which validate() gave for the plan and `life`.
// Every verdict confirms what was begun early. The plan ends its steps with N and O. The same input gives the same result to
// the bit. Throws std::invalid_argument for costs that do not fit, and where early steps are not built: for plans with slices,
// moves of activations, custom actions, or braids that hide communication.
FollowingSteps simulate_following(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                                  const StepsToFollow& how = {});

// By stage: whether it is done with a step of the plan half a forward or more before the last stage, where F = I = W, and so
// has the time to begin the coming step early. `needs`: what validate() gave.
std::vector<bool> stages_that_wait(const Plan& plan, const std::vector<StageNeeds>& needs);

}  // namespace pipetrain::schedules
