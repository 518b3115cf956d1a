#include "actors/training/run/step_bubbles.hpp"

#include <algorithm>
#include <utility>

#include "actors/training/run/trainer.hpp"

namespace pipetrain {

using schedules::ActionKind;

namespace {

double seconds_of(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

double bubble_of_step(const std::vector<StageTrace>& stages) {
  auto first = std::chrono::steady_clock::time_point::max();
  auto last = std::chrono::steady_clock::time_point::min();
  double busy = 0;
  for (const auto& stage : stages) {
    for (const auto& action : stage.actions) {
      if (schedules::is_move(action.action.kind)) continue;  // moves overlap with the work of the stage
      first = std::min(first, action.times.start);
      last = std::max(last, action.times.end);
      busy += seconds_of(action.times.end - action.times.start);
    }
  }
  const double makespan = seconds_of(last - first);
  return makespan > 0 ? std::max(0.0, 1 - busy / (static_cast<double>(stages.size()) * makespan)) : 0;
}

auto find_action(const StageTrace& stage, ActionKind kind) {
  return std::find_if(stage.actions.begin(), stage.actions.end(),
                      [kind](const TracedAction& one) { return one.action.kind == kind; });
}

}  // namespace

bool previewed(const std::vector<StageTrace>& stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const StageTrace& stage) { return find_action(stage, ActionKind::preview) != stage.actions.end(); });
}

void StepBubbles::add_to(StepReport& report, bool overlaps, bool next_announced) {
  report.bubble = bubble_of_step(report.trace);
  if (!overlaps) return;
  report.redone = report.redone && previewed(report.trace);
  add_overlapped(report, std::exchange(announced_, next_announced));
}

void StepBubbles::add_overlapped(StepReport& report, bool announced) {
  announced = announced && tails_.size() == report.trace.size();
  tails_.resize(report.trace.size());
  std::vector<std::optional<double>> shares;
  double all_busy = 0, all_time = 0;
  for (std::size_t i = 0; i < report.trace.size(); ++i) {
    const auto norm = find_action(report.trace[i], ActionKind::norm);
    const Tail before = std::exchange(tails_[i], {norm->times.end});
    double busy = before.busy;
    for (const TracedAction& one : report.trace[i].actions)
      (one.times.start < norm->times.end ? busy : tails_[i].busy) += seconds_of(one.times.end - one.times.start);
    const double time = seconds_of(norm->times.end - before.norm_end);
    shares.push_back(time > 0 ? std::optional(std::max(0.0, 1 - busy / time)) : std::nullopt);
    all_busy += busy;
    all_time += time;
  }
  if (!announced || all_time <= 0) return;
  report.bubble = std::max(0.0, 1 - all_busy / all_time);
  report.stage_bubble = std::move(shares);
}

}  // namespace pipetrain
