#include "schedules/plan/hanging.hpp"

#include <algorithm>

namespace pipetrain::schedules {
namespace {

bool is_sum(const Action& action) {
  return action.kind == ActionKind::reduce_grads || action.kind == ActionKind::sum_replicated ||
         action.kind == ActionKind::sum_tied;
}

// True when the chunk at virtual stage `at` of this replica runs the action that makes this action's input.
bool is_running(const Placement& placement, const std::vector<RunningActions>& running, int replica, int at,
                const Action& action) {
  if (at < 0 || at >= placement.virtual_stages()) return false;
  const StageChunk where = placement.at(at);
  return std::any_of(running.begin(), running.end(), [&](const RunningActions& one) {
    return one.replica == replica && one.stage == where.stage &&
           std::any_of(one.actions.begin(), one.actions.end(), [&](const Action& other) {
             const bool gives =
                 gives_input_grad(action.kind) ? gives_input_grad(other.kind) : other.kind == ActionKind::forward;
             return gives && other.chunk == where.chunk && other.microbatch == action.microbatch;
           });
  });
}

bool waits(const Placement& placement, const std::vector<RunningActions>& running, const RunningActions& one) {
  const Action& oldest = one.actions.front();
  const bool forward = oldest.kind == ActionKind::forward;
  if (!forward && !gives_input_grad(oldest.kind)) return false;
  const int at = placement.virtual_stage(one.stage, oldest.chunk) + (forward ? -1 : 1);
  return is_running(placement, running, one.replica, at, oldest);
}

}  // namespace

std::vector<std::size_t> hanging(const Placement& placement, const std::vector<RunningActions>& running) {
  std::vector<std::size_t> computing, summing;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i].actions.empty() || waits(placement, running, running[i])) continue;
    (is_sum(running[i].actions.front()) ? summing : computing).push_back(i);
  }
  return computing.empty() ? summing : computing;
}

}  // namespace pipetrain::schedules
