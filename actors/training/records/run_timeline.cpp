#include "actors/training/records/run_timeline.hpp"

#include <algorithm>
#include <limits>

#include "actors/training/rank/parallel_layout.hpp"
#include "schedules/record/output_times.hpp"

namespace pipetrain {

using schedules::OutputTimes;
using schedules::Span;
using schedules::WaitedFor;

namespace {

constexpr std::size_t most_actions = 1'000'000;

std::size_t count(const std::vector<std::vector<Span>>& rows) {
  std::size_t actions = 0;
  for (const auto& row : rows) actions += row.size();
  return actions;
}

// Returns the time from the first action of the rows to the last one's end.
schedules::Period period_of(std::int64_t step, const std::vector<std::vector<Span>>& rows) {
  constexpr double never = std::numeric_limits<double>::infinity();
  schedules::Period period{step, never, -never};
  for (const auto& row : rows) {
    if (row.empty()) continue;
    period.start = std::min(period.start, row.front().start);
    period.end = std::max(period.end, row.back().end);
  }
  return period;
}

}  // namespace

std::string rank_name(const MeshCoordinate& rank, const MeshShape& shape) {
  return (shape.dp > 1 ? "replica " + std::to_string(rank.dp) + " " : "") + "stage " + std::to_string(rank.pp) +
         (stage_size(shape) > 1 ? " rank " + std::to_string(stage_rank(rank, shape)) : "");
}

std::string run_title(const TrainJob& job) {
  return job.layout.schedule + ", pp " + std::to_string(job.layout.pp) + ", tp " + std::to_string(job.layout.tp) +
         (job.layout.cp > 1 ? ", cp " + std::to_string(job.layout.cp) : "") + ", dp " + std::to_string(job.batch.dp) + ", " +
         (job.layout.ep > 1 ? "ep " + std::to_string(job.layout.ep) + ", " : "") + std::to_string(job.batch.microbatches) +
         " microbatches" + (job.layout.slices > 1 ? " of " + std::to_string(job.layout.slices) + " slices" : "");
}

RunTimeline::RunTimeline(std::string title, schedules::Placement placement, int microbatches, const Mesh& mesh, int slices)
    : title_(std::move(title)), placement_(std::move(placement)), mesh_(mesh), microbatches_(microbatches), slices_(slices) {}

RunTimeline::RunTimeline(const TrainJob& job)
    : RunTimeline(run_title(job), job.plan->placement, job.plan->microbatches, mesh_of(job), job.plan->slices) {}

void RunTimeline::add(std::int64_t step, const std::vector<DeviceTrace>& devices) {
  Rows rows(devices.size()), moves(devices.size());
  // The ranks of one pipeline pass their outputs from stage to stage.
  std::vector<OutputTimes> outputs(mesh_.groups({Axis::pp}).size(), OutputTimes(placement_, microbatches_));
  const auto outputs_of = [&](const MeshCoordinate& rank) -> OutputTimes& {
    return outputs[static_cast<std::size_t>(mesh_.group_index(mesh_.rank(rank), {Axis::pp}))];
  };
  if (!origin_) {
    origin_ = std::chrono::steady_clock::time_point::max();
    for (const auto& device : devices)
      for (const auto& one : device.actions) origin_ = std::min(*origin_, one.times.start);
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto& [rank, actions] = devices[row];
    for (const DeviceAction& one : actions) {
      if (schedules::is_move(one.action.kind)) {
        moves[row].push_back({one.action, WaitedFor::nothing, seconds(one.times.start), seconds(one.times.end)});
        continue;
      }
      rows[row].push_back({one.action, WaitedFor::nothing, seconds(one.times.start), seconds(one.times.end)});
      outputs_of(rank).note(rank.pp, rows[row].back());
    }
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const MeshCoordinate& rank = devices[row].rank;
    double free = OutputTimes::never;
    for (Span& span : rows[row]) {
      span.waited_for = outputs_of(rank).waited_for(rank.pp, span, free);
      free = span.end;
    }
  }
  if (names_.empty()) {
    for (const auto& device : devices) names_.push_back(rank_name(device.rank, mesh_.shape()));
  }
  kept_ += count(rows) + count(moves);
  const schedules::Period period = period_of(step, rows);
  steps_.push_back({period, std::move(rows), std::move(moves)});
  while (kept_ > most_actions && steps_.size() > 1) {
    kept_ -= count(steps_.front().rows) + count(steps_.front().moves);
    steps_.pop_front();
  }
}

void RunTimeline::add(const Evaluation& evaluation, std::chrono::steady_clock::time_point end) {
  if (!origin_) return;  // before the first step
  evaluations_.push_back({evaluation.step, seconds(end) - evaluation.seconds, seconds(end)});
}

double RunTimeline::seconds(std::chrono::steady_clock::time_point time) const {
  return std::chrono::duration<double>(time - *origin_).count();
}

RunTimeline::Rows RunTimeline::joined(Rows Step::*part) const {
  Rows all(names_.size());
  for (const Step& step : steps_)
    for (std::size_t row = 0; row < (step.*part).size(); ++row)
      all[row].insert(all[row].end(), (step.*part)[row].begin(), (step.*part)[row].end());
  // Steps may overlap: the early actions of a step come before the end of the previous one.
  for (auto& row : all)
    std::stable_sort(row.begin(), row.end(), [](const Span& one, const Span& other) { return one.start < other.start; });
  return all;
}

void RunTimeline::add_periods(schedules::Timeline& timeline) const {
  for (const Step& step : steps_)
    if (step.period.start <= step.period.end) timeline.steps.push_back(step.period);
  if (timeline.steps.empty()) return;
  for (const schedules::Period& evaluation : evaluations_)
    if (evaluation.start >= timeline.steps.front().start && evaluation.end <= timeline.steps.back().end)
      timeline.evaluations.push_back(evaluation);
}

schedules::Timeline RunTimeline::timeline() const {
  schedules::Timeline timeline;
  if (!steps_.empty())
    timeline.title =
        title_ + ", steps " + std::to_string(steps_.front().period.step) + " to " + std::to_string(steps_.back().period.step);
  add_periods(timeline);
  timeline.unit = "s";
  timeline.placement = placement_;
  timeline.microbatches = microbatches_;
  timeline.slices = slices_;
  timeline.names = names_;
  timeline.stages = joined(&Step::rows);
  timeline.moves = joined(&Step::moves);
  if (count(timeline.moves) == 0) timeline.moves.clear();
  return timeline;
}

}  // namespace pipetrain
