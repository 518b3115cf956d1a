// The rules of a plan that concern one stage's list alone. Internal to schedules/.
#pragma once

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Throws InvalidPlan.
void check_lists(const Plan& plan);

}  // namespace pipetrain::schedules
