// Finds the stages that hold up a pipeline in which nothing completes any more.
#pragma once

#include <cstddef>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// The actions that a stage, or a part of one, has launched and that have not completed, oldest first.
struct RunningActions {
  int replica = 0;
  int stage = 0;
  std::vector<Action> actions;
};

// Returns the entries whose oldest running action waits for no running action of another entry: forwards wait for those
// of the chunk before, backwards for those of the chunk after. A sum over ranks (R, S, T) waits for entries that have
// not reached it, so entries in a sum are returned only where there are no others. Empty where nothing runs. The chunks
// must be the placement's.
std::vector<std::size_t> hanging(const Placement& placement, const std::vector<RunningActions>& running);

}  // namespace pipetrain::schedules
