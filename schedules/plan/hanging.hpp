// Who keeps a pipeline from going on when nothing completes any more.
#pragma once

#include <cstddef>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// What a stage, or a part of one, has launched and not seen completed, oldest first.
struct RunningActions {
  int replica = 0;
  int stage = 0;
  std::vector<Action> actions;
};

// The entries whose oldest running action waits for no running action of another: forwards wait for those of the chunk before,
// backwards for those of the chunk after. A sum over ranks (R, S, T) waits for whoever has not come to it, so entries that are
// in one are named only where there are no others. None where nothing runs. The chunks must be the placement's.
std::vector<std::size_t> hanging(const Placement& placement, const std::vector<RunningActions>& running);

}  // namespace pipetrain::schedules
