#include "actors/training/run_timeline.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "actors/training/job_plan.hpp"
#include "actors/training/parallel_layout.hpp"

namespace pipetrain {

using schedules::ActionKind;
using schedules::Span;
using schedules::WaitedFor;

namespace {

constexpr std::size_t most_actions = 1'000'000;
constexpr double never = -std::numeric_limits<double>::infinity();

std::size_t count(const std::vector<std::vector<Span>>& rows) {
  std::size_t actions = 0;
  for (const auto& row : rows) actions += row.size();
  return actions;
}

// When the outputs of one replica's step were made: [virtual stage][microbatch].
class Outputs {
  using Times = std::vector<std::vector<double>>;
  template <class T>
  static auto& at(T& times, int v, const schedules::Action& action) {
    return times[static_cast<std::size_t>(v)][static_cast<std::size_t>(action.microbatch)];
  }

 public:
  Outputs(const schedules::Placement& placement, int microbatches)
      : placement_(placement),
        forwards_(static_cast<std::size_t>(placement.virtual_stages()),
                  std::vector<double>(static_cast<std::size_t>(microbatches), never)),
        gradients_(forwards_) {}

  void note(int stage, const Span& span) {
    const auto& action = span.action;
    if (action.kind == ActionKind::norm) last_norm_ = std::max(last_norm_, span.end);
    if (action.kind == ActionKind::forward) at(forwards_, placement_.virtual_stage(stage, action.chunk), action) = span.end;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::input_grad)
      at(gradients_, placement_.virtual_stage(stage, action.chunk), action) = span.end;
  }
  // What came last before the start of an action whose stage was free from `free` on.
  WaitedFor waited_for(int stage, const Span& span, double free) const {
    const auto& action = span.action;
    if (action.kind == ActionKind::optimizer) return last_norm_ > free ? WaitedFor::partner : WaitedFor::nothing;
    if (!is_compute(action.kind) || action.kind == ActionKind::weight_grad) return WaitedFor::nothing;
    const int v = placement_.virtual_stage(stage, action.chunk);
    if (action.kind == ActionKind::forward)
      return v > 0 && at(forwards_, v - 1, action) > free ? WaitedFor::activation : WaitedFor::nothing;
    return v + 1 < placement_.virtual_stages() && at(gradients_, v + 1, action) > free ? WaitedFor::gradient
                                                                                       : WaitedFor::nothing;
  }

 private:
  const schedules::Placement& placement_;
  Times forwards_, gradients_;
  double last_norm_ = never;
};

std::string name_of(const MeshCoordinate& rank, const MeshShape& shape) {
  return (shape.dp > 1 ? "replica " + std::to_string(rank.dp) + " " : "") + "stage " + std::to_string(rank.pp) +
         (shape.tp > 1 ? " rank " + std::to_string(rank.tp) : "");
}

}  // namespace

RunTimeline::RunTimeline(const TrainJob& job)
    : title_(job.layout.schedule + ", pp " + std::to_string(job.layout.pp) + ", tp " + std::to_string(job.layout.tp) + ", dp " +
             std::to_string(job.batch.dp) + ", " + std::to_string(job.batch.microbatches) + " microbatches"),
      placement_(placement_of(job)),
      mesh_(mesh_of(job)),
      microbatches_(static_cast<int>(job.batch.microbatches)) {}

void RunTimeline::add(const StepReport& report) {
  Rows rows(report.devices.size());
  // What the ranks of one pipeline compute goes from stage to stage.
  std::vector<Outputs> outputs(mesh_.groups({Axis::pp}).size(), Outputs(placement_, microbatches_));
  const auto outputs_of = [&](const MeshCoordinate& rank) -> Outputs& {
    return outputs[static_cast<std::size_t>(mesh_.group_index(mesh_.rank(rank), {Axis::pp}))];
  };
  if (!origin_) {
    origin_ = std::chrono::steady_clock::time_point::max();
    for (const auto& device : report.devices)
      for (const auto& one : device.actions) origin_ = std::min(*origin_, one.times.start);
  }
  const auto seconds = [&](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration<double>(time - *origin_).count();
  };
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto& [rank, actions] = report.devices[row];
    for (const DeviceAction& one : actions) {
      rows[row].push_back({one.action, WaitedFor::nothing, seconds(one.times.start), seconds(one.times.end)});
      outputs_of(rank).note(rank.pp, rows[row].back());
    }
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const MeshCoordinate& rank = report.devices[row].rank;
    double free = never;
    for (Span& span : rows[row]) {
      span.waited_for = outputs_of(rank).waited_for(rank.pp, span, free);
      free = span.end;
    }
  }
  if (names_.empty()) {
    for (const auto& device : report.devices) names_.push_back(name_of(device.rank, mesh_.shape()));
  }
  last_step_ = report.step;
  kept_ += count(rows);
  steps_.push_back(std::move(rows));
  while (kept_ > most_actions && steps_.size() > 1) {
    kept_ -= count(steps_.front());
    steps_.pop_front();
  }
}

schedules::Timeline RunTimeline::timeline() const {
  schedules::Timeline timeline;
  const auto steps = static_cast<std::int64_t>(steps_.size());
  timeline.title = title_ + ", steps " + std::to_string(last_step_ - steps + 1) + " to " + std::to_string(last_step_);
  timeline.unit = "s";
  timeline.placement = placement_;
  timeline.microbatches = microbatches_;
  timeline.names = names_;
  timeline.stages.resize(names_.size());
  for (const Rows& rows : steps_)
    for (std::size_t row = 0; row < rows.size(); ++row)
      timeline.stages[row].insert(timeline.stages[row].end(), rows[row].begin(), rows[row].end());
  return timeline;
}

}  // namespace pipetrain
