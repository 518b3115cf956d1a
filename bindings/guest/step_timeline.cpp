#include "bindings/guest/step_timeline.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "schedules/record/output_times.hpp"

namespace pipetrain {

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point first_start(const StepOutcome& outcome) {
  auto first = Clock::time_point::max();
  for (const StageTrace& stage : outcome.stages)
    for (const TracedAction& one : stage.actions) first = std::min(first, one.times.start);
  return first;
}

std::vector<schedules::Span> spans_of(const StageTrace& stage, Clock::time_point origin) {
  const auto seconds = [&](Clock::time_point time) { return std::chrono::duration<double>(time - origin).count(); };
  std::vector<schedules::Span> spans;
  for (const TracedAction& one : stage.actions)
    spans.push_back({one.action, schedules::WaitedFor::nothing, seconds(one.times.start), seconds(one.times.end)});
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  return spans;
}

}  // namespace

schedules::Timeline step_timeline(const schedules::Plan& plan, const StepOutcome& outcome, schedules::StepKind kind) {
  schedules::Timeline timeline;
  timeline.title = plan.schedule + ", " + std::to_string(plan.placement.stages()) + " stages, " +
                   std::to_string(plan.microbatches) + " microbatches" +
                   (kind == schedules::StepKind::evaluation ? ", evaluated" : "");
  timeline.placement = plan.placement;
  timeline.unit = "s";
  timeline.microbatches = plan.microbatches;
  for (const auto& custom : plan.custom) timeline.custom.push_back(custom.name);
  const int replicas = static_cast<int>(outcome.stages.size()) / plan.placement.stages();
  std::vector<schedules::OutputTimes> outputs(static_cast<std::size_t>(replicas),
                                              schedules::OutputTimes(plan.placement, plan.microbatches));
  const Clock::time_point origin = first_start(outcome);
  for (const StageTrace& stage : outcome.stages) {
    timeline.stages.push_back(spans_of(stage, origin));
    for (const auto& span : timeline.stages.back())
      outputs[static_cast<std::size_t>(stage.stage.replica)].note(stage.stage.stage, span);
    if (replicas > 1)
      timeline.names.push_back("replica " + std::to_string(stage.stage.replica) + " stage " +
                               std::to_string(stage.stage.stage));
  }
  for (std::size_t row = 0; row < timeline.stages.size(); ++row) {
    const StageId id = outcome.stages[row].stage;
    double free = schedules::OutputTimes::never;
    for (auto& span : timeline.stages[row]) {
      span.waited_for = outputs[static_cast<std::size_t>(id.replica)].waited_for(id.stage, span, free);
      free = span.end;
    }
  }
  return timeline;
}

}  // namespace pipetrain
