#include "actors/training/run_timeline.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "actors/training/job_plan.hpp"

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

}  // namespace

RunTimeline::RunTimeline(const TrainJob& job)
    : title_(job.schedule + ", pp " + std::to_string(job.pp) + ", tp " + std::to_string(job.tp) + ", dp " +
             std::to_string(job.batch.dp) + ", " + std::to_string(job.batch.microbatches) + " microbatches"),
      placement_(placement_of(job)),
      replicas_(static_cast<int>(job.batch.dp)),
      microbatches_(static_cast<int>(job.batch.microbatches)) {}

void RunTimeline::add(const StepReport& report) {
  const int pp = placement_.stages();
  Rows rows(static_cast<std::size_t>(replicas_ * pp));
  std::vector<Outputs> outputs(static_cast<std::size_t>(replicas_), Outputs(placement_, microbatches_));
  if (!origin_) {
    origin_ = std::chrono::steady_clock::time_point::max();
    for (const auto& trace : report.trace)
      for (const auto& traced : trace.actions) origin_ = std::min(*origin_, traced.times.start);
  }
  const auto seconds = [&](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration<double>(time - *origin_).count();
  };
  for (const auto& [id, actions] : report.trace)
    for (const auto& traced : actions) {
      auto& row = rows[static_cast<std::size_t>(id.replica * pp + id.stage)];
      row.push_back({traced.action, WaitedFor::nothing, seconds(traced.times.start), seconds(traced.times.end)});
      outputs[static_cast<std::size_t>(id.replica)].note(id.stage, row.back());
    }
  for (int replica = 0; replica < replicas_; ++replica)
    for (int stage = 0; stage < pp; ++stage) {
      double free = never;
      for (Span& span : rows[static_cast<std::size_t>(replica * pp + stage)]) {
        span.waited_for = outputs[static_cast<std::size_t>(replica)].waited_for(stage, span, free);
        free = span.end;
      }
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
  if (replicas_ > 1)
    timeline.title +=
        ", " + std::to_string(placement_.stages()) + " stages of each of " + std::to_string(replicas_) + " replicas";
  timeline.placement = placement_;
  timeline.microbatches = microbatches_;
  timeline.stages.resize(static_cast<std::size_t>(replicas_ * placement_.stages()));
  for (const Rows& rows : steps_)
    for (std::size_t row = 0; row < rows.size(); ++row)
      timeline.stages[row].insert(timeline.stages[row].end(), rows[row].begin(), rows[row].end());
  return timeline;
}

}  // namespace pipetrain
