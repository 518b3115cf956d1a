#include "schedules/plan/unit_clock.hpp"

namespace pipetrain::schedules {

namespace {

std::int32_t unit_cost(ActionKind kind) {
  if (!is_compute(kind)) return is_custom(kind) ? 1 : 0;
  return kind == ActionKind::backward ? 2 : 1;
}

}  // namespace

UnitClock::UnitClock(const Plan& plan, UnitTimes& times)
    : plan_(plan), times_(times), stages_(plan.stages.size()), signalled_(plan.custom.size()) {
  times_.of.resize(static_cast<std::size_t>(plan.placement.virtual_stages()) * static_cast<std::size_t>(plan.microbatches));
}

void UnitClock::signal(int custom, int stage) {
  std::int32_t& last_end = signalled_[static_cast<std::size_t>(custom)];
  last_end = std::max(last_end, at(stage).free_at);
}

// Computes from the action's inputs when it can be launched, and when it can start.
void UnitClock::note_inputs(const Action& action, int v, std::int32_t& launch, std::int32_t& start) const {
  const auto after = [&](std::int32_t input_launch, std::int32_t input_end) {
    launch = std::max(launch, input_launch);
    start = std::max(start, input_end);
  };
  const bool is_last = v + 1 == plan_.placement.virtual_stages();
  if (action.kind == ActionKind::forward && v > 0) after(of(v - 1, action).forward_launch, of(v - 1, action).forward_end);
  if (gives_input_grad(action.kind) && !is_last) after(of(v + 1, action).backward_launch, of(v + 1, action).backward_end);
  if (is_custom(action.kind)) {
    const std::int32_t last_end = signalled_[static_cast<std::size_t>(action.microbatch)];
    after(last_end, last_end);
  }
  if (action.kind == ActionKind::sum_tied) start = std::max(start, tied_at_);
}

void UnitClock::run(int stage, const Action& action, InBraid part) {
  if (is_move(action.kind)) return;  // runs beside compute
  Stage& own = at(stage);
  const auto virtual_stage = [&](const Action& one) { return plan_.placement.virtual_stage(stage, one.chunk); };
  const int v = virtual_stage(action);
  // At most two actions are launched and not completed, where a braid counts as one, so this one is launched when the
  // one before the previous has ended.
  std::int32_t launch = std::max(own.launch, own.previous_end), start = own.free_at;
  note_inputs(action, v, launch, start);
  if (part == InBraid::first) {
    const Action& second = *(&action + 1);
    note_inputs(second, virtual_stage(second), launch, start);
  }
  if (part == InBraid::second) {
    launch = own.launch;
  } else {
    own.previous_end = own.free_at;
  }
  own.launch = launch;
  own.free_at = start + unit_cost(action.kind);
  if (!is_compute(action.kind)) return;
  UnitTimes::Microbatch& mine = of(v, action);
  if (action.kind == ActionKind::forward) mine.forward_launch = launch, mine.forward_end = own.free_at;
  if (gives_input_grad(action.kind)) mine.backward_launch = launch, mine.backward_end = own.free_at;
  if (gives_weight_grad(action.kind)) mine.weight_end = own.free_at;
}

}  // namespace pipetrain::schedules
