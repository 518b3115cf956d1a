// Measures how long messages took in a step of a real run.
#pragma once

#include <vector>

#include "actors/engine/step.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// Returns, by v, the seconds of messages between virtual stages v and v + 1 on different stages, in both directions: from the
// end of the action that made an output to the start of the one that was idle until it arrived. Messages to a busy stage cannot
// be measured, nor those of a stage's first action, which may have waited for the step to begin.
std::vector<std::vector<double>> transfer_times(const schedules::Placement& placement, const std::vector<StageTrace>& traces);

}  // namespace pipetrain
