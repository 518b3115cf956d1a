#include "apps/replay/what_if.hpp"

#include <algorithm>
#include <limits>

#include "schedules/simulate/cost.hpp"
#include "schedules/simulate/recorded_times.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain {

namespace {

using schedules::RecordedTimes;
using schedules::Timeline;

void apply(const Changes& changes, const schedules::Placement& placement, RecordedTimes& times) {
  for (std::size_t stage = 0; stage < changes.stage_factors.size(); ++stage)
    times.scale_stage(static_cast<int>(stage), changes.stage_factors[stage]);
  for (std::size_t edge = 0; edge < changes.link_factors.size(); ++edge)
    times.scale_link(placement, static_cast<int>(edge), (static_cast<int>(edge) + 1) % placement.stages(),
                     changes.link_factors[edge]);
}

double begin_of(const Timeline& timeline) {
  double begin = std::numeric_limits<double>::infinity();
  for (const auto& row : timeline.stages)
    for (const auto& span : row) begin = std::min(begin, span.start);
  return begin;
}

}  // namespace

Timeline pipeline_rows(const schedules::RecordedRun& run, const Timeline& timeline, int replica, int part) {
  Timeline rows = timeline;
  rows.stages.clear();
  rows.moves.clear();
  rows.names.clear();
  for (int log = 0; log < run.logs(); ++log) {
    if (run.replica_of(log) != replica || log % run.parts != part) continue;
    rows.stages.push_back(timeline.stages[static_cast<std::size_t>(log)]);
    if (!timeline.moves.empty()) rows.moves.push_back(timeline.moves[static_cast<std::size_t>(log)]);
  }
  return rows;
}

Timeline with_changes(const schedules::Replay& replay, const Timeline& timeline, const Changes& changes) {
  const schedules::RecordedRun& run = replay.run();
  Timeline changed = timeline;
  changed.moves.clear();  // they overlap with compute; the time that actions waited for them stays with those actions
  for (int replica = 0; replica < run.replicas; ++replica)
    for (int part = 0; part < run.parts; ++part) {
      const Timeline rows = pipeline_rows(run, timeline, replica, part);
      schedules::Plan order = run.plan;  // as the stages ran it
      for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
        order.stages[stage].clear();
        for (const auto& span : rows.stages[stage]) order.stages[stage].push_back(span.action);
      }
      RecordedTimes times = recorded_times(order, run.needs, run.life, rows);
      apply(changes, run.plan.placement, times);
      schedules::SimulationOptions how;
      how.run_ahead = run.run_ahead;
      how.life = run.life;
      how.recorded = &times;
      const Timeline simulated =
          simulate(order, of_slices(schedules::Costs::uniform(run.plan.placement, 1, 1, 1), order.slices), run.needs, how);
      const double begin = begin_of(rows);
      for (std::size_t stage = 0; stage < simulated.stages.size(); ++stage) {
        const int log = (replica * run.plan.placement.stages() + static_cast<int>(stage)) * run.parts + part;
        auto& row = changed.stages[static_cast<std::size_t>(log)];
        row = simulated.stages[stage];
        for (auto& span : row) span.start += begin, span.end += begin;
      }
    }
  return changed;
}

}  // namespace pipetrain
