#include "schedules/builders/builders.hpp"

namespace pipetrain::schedules {

// Huang et al. 2019, "GPipe": all forwards, then all backwards. The backwards run in microbatch order here, because sums of
// gradients must not depend on the schedule.
Plan build_gpipe(const ScheduleShape& shape) {
  Plan plan{"gpipe", Placement::looping(shape.stages, 1), shape.microbatches, {}, ReadyRule::forward_first};
  std::vector<Action> actions;
  for (const auto kind : {ActionKind::forward, ActionKind::backward})
    for (int m = 0; m < shape.microbatches; ++m) actions.push_back({kind, 0, m});
  plan.stages.assign(static_cast<std::size_t>(shape.stages), actions);
  return plan;
}

}  // namespace pipetrain::schedules
