// A step that a pipeline ran, as the timeline that simulations fill too.
#pragma once

#include "actors/engine/step.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// One row per stage and replica, replica-major, in seconds from the first start. What an action waited for is found from when
// its inputs were made.
schedules::Timeline step_timeline(const schedules::Plan& plan, const StepOutcome& outcome, schedules::StepKind kind);

}  // namespace pipetrain
