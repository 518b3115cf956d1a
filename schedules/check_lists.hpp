// The rules of a plan that each stage's list must keep by itself. Internal to schedules/.
#pragma once

#include "schedules/plan.hpp"

namespace pipetrain::schedules {

// Throws InvalidPlan.
void check_lists(const Plan& plan);

}  // namespace pipetrain::schedules
