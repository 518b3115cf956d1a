#include "schedules/simulate/action_times.hpp"

#include "schedules/simulate/jitter.hpp"

namespace pipetrain::schedules {

double ActionTimes::factor(int stage, const Action& action) const {
  return options_.jitter == 0 ? 1 : jitter_factor(options_.jitter, options_.seed, stage, action);
}

double ActionTimes::transfer(InputKind kind, int v, int microbatch) const {
  const bool is_activation = kind == InputKind::activation;
  if (!are_recorded()) return costs_.transfer(is_activation ? v - 1 : v);
  const auto& queues = is_activation ? options_.recorded->activations : options_.recorded->gradients;
  return queues[static_cast<std::size_t>(v)][static_cast<std::size_t>(microbatch)];
}

BraidPart ActionTimes::braid_part(int stage, const Action& action) const {
  const bool communicates = action.kind == ActionKind::forward || gives_input_grad(action.kind);
  const double communication = communicates ? chunk(stage, action).communication : 0;
  const double alike = factor(stage, action);
  return {(costs_.of(stage, action) - communication) * alike, communication * alike};
}

BraidTimes ActionTimes::of_braid(int stage, const Action& first, const Action& second) const {
  return braid_times(braid_part(stage, first), braid_part(stage, second), chunk(stage, first).collectives);
}

}  // namespace pipetrain::schedules
