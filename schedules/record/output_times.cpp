#include "schedules/record/output_times.hpp"

#include <algorithm>

namespace pipetrain::schedules {

namespace {

template <class Times>
auto& time_at(Times& times, int virtual_stage, const Action& action) {
  return times[static_cast<std::size_t>(virtual_stage)][static_cast<std::size_t>(action.microbatch)];
}

}  // namespace

OutputTimes::OutputTimes(const Placement& placement, int microbatches)
    : placement_(placement),
      forwards_(static_cast<std::size_t>(placement.virtual_stages()),
                std::vector<double>(static_cast<std::size_t>(microbatches), never)),
      gradients_(forwards_) {}

void OutputTimes::note(int stage, const Span& span) {
  const auto& action = span.action;
  if (action.kind == ActionKind::norm) last_norm_ = std::max(last_norm_, span.end);
  if (action.kind == ActionKind::forward) time_at(forwards_, placement_.virtual_stage(stage, action.chunk), action) = span.end;
  if (gives_input_grad(action.kind)) time_at(gradients_, placement_.virtual_stage(stage, action.chunk), action) = span.end;
}

WaitedFor OutputTimes::waited_for(int stage, const Span& span, double free) const {
  const auto& action = span.action;
  if (action.kind == ActionKind::optimizer) return last_norm_ > free ? WaitedFor::partner : WaitedFor::nothing;
  if (!is_compute(action.kind) || action.kind == ActionKind::weight_grad) return WaitedFor::nothing;
  const int v = placement_.virtual_stage(stage, action.chunk);
  if (action.kind == ActionKind::forward)
    return v > 0 && time_at(forwards_, v - 1, action) > free ? WaitedFor::activation : WaitedFor::nothing;
  return v + 1 < placement_.virtual_stages() && time_at(gradients_, v + 1, action) > free ? WaitedFor::gradient
                                                                                          : WaitedFor::nothing;
}

}  // namespace pipetrain::schedules
