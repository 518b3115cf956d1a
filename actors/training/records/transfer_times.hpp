// How long messages took in a step of a real run.
#pragma once

#include <vector>

#include "actors/engine/step.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// [v]: seconds of messages between virtual stages v and v + 1 on different stages, both ways: from the end of the action that
// made an output to the start of the one that stood idle for it. Of a message that came to a busy stage nothing is known, nor
// of the first action of a stage, which may have waited for the step to begin.
std::vector<std::vector<double>> transfer_times(const schedules::Placement& placement, const std::vector<StageTrace>& traces);

}  // namespace pipetrain
