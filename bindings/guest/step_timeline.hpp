// Makes a timeline, as simulations do, of a step that a pipeline ran.
#pragma once

#include "actors/engine/step.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// Returns one row per stage and replica, replica-major, in seconds from the first start. An action's wait ends when the last of
// its inputs was made.
schedules::Timeline step_timeline(const schedules::Plan& plan, const StepOutcome& outcome, schedules::StepKind kind);

}  // namespace pipetrain
