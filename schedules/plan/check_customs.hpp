// Checks that a plan's custom actions can wait as they say. Internal to schedules/.
#pragma once

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Each custom action must be in its stage's list once; the actions that it waits for must exist, and precede it on its
// own stage; the plan must have no ready rule. Throws InvalidPlan.
void check_customs(const Plan& plan);

// Returns "X2 (send-stats)", without the name where the plan has no such action.
std::string custom_name(const Plan& plan, int number);

}  // namespace pipetrain::schedules
