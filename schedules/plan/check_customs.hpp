// Whether a plan's custom actions say what they wait for in a way that can be. Internal to schedules/.
#pragma once

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Each stands once, on its stage; what it waits for is there, on its own stage before it; and the plan has no ready rule.
// Throws InvalidPlan.
void check_customs(const Plan& plan);

// "X2 (send-stats)". Without the name where the plan has no such action.
std::string custom_name(const Plan& plan, int number);

}  // namespace pipetrain::schedules
