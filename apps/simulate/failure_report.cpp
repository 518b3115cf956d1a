#include "apps/simulate/failure_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/counted.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

namespace {

using schedules::ChunkCost;
using schedules::Costs;
using schedules::LongRun;
using schedules::LongRunResult;
using schedules::Plan;
using schedules::Recovery;
using schedules::SimulationOptions;

constexpr double day = 86400, hour = 3600;

// Doubles the times of a stage's own work.
void double_stage(Costs& costs, std::size_t stage) {
  for (ChunkCost& cost : costs.chunks[stage])
    for (double ChunkCost::*time : {&ChunkCost::forward, &ChunkCost::input_grad, &ChunkCost::weight_grad,
                                    &ChunkCost::communication, &ChunkCost::reduce_grads, &ChunkCost::sum_replicated})
      cost.*time *= 2;
  if (!costs.norm.empty()) costs.norm[stage] *= 2;
  if (!costs.optimizer.empty()) costs.optimizer[stage] *= 2;
}

double makespan_of(const Plan& plan, const Costs& costs, const SimulationOptions& how) {
  const schedules::Timeline timeline = schedules::simulate(plan, costs, how);
  return schedules::summarize(timeline, {}).makespan;
}

FailureMonth mean_month(std::int64_t gpus, LongRun run, int runs) {
  FailureMonth month{gpus, run, 1, 0, {}, 0, 0};
  for (int i = 0; i < runs; ++i, ++run.seed) {
    const LongRunResult one = schedules::simulate_long_run(run);
    month.worst = std::min(month.worst, one.goodput);
    month.best = std::max(month.best, one.goodput);
    for (double LongRunResult::*share : {&LongRunResult::goodput, &LongRunResult::repeated, &LongRunResult::down,
                                         &LongRunResult::slowed, &LongRunResult::saving})
      month.mean.*share += one.*share / runs;
    month.failures += static_cast<double>(one.failures) / runs;
    month.restarts += static_cast<double>(one.restarts) / runs;
  }
  return month;
}

LongRun long_run(const FailureOptions& options, std::int64_t gpus, double step) {
  LongRun run;
  run.length = options.days * day;
  run.hosts = static_cast<int>(gpus / options.host_gpus);
  run.host_rate = options.host_failures / (1000 * day);
  run.repair = options.repair_hours * hour;
  run.step = step;
  run.save_stall = options.save_stall;
  run.restart = options.restart;
  run.takeover = options.takeover;
  run.seed = options.seed;
  run.save_every = options.save_every.value_or(schedules::best_save_interval(run));
  return run;
}

const char* recovery_name(Recovery recovery) { return recovery == Recovery::restart ? "restart" : "takeover"; }

}  // namespace

std::vector<double> takeover_slowdowns(const Plan& plan, const Costs& costs, const SimulationOptions& how, bool replicas) {
  const double usual = makespan_of(plan, costs, how);
  const int stages = plan.placement.stages();
  std::vector<double> slowdowns;
  for (int stage = 0; stage < stages; ++stage) {
    Costs doubled = costs;
    double_stage(doubled, stage);
    double time = makespan_of(plan, doubled, how);
    if (!replicas && stages > 1) {
      double best = std::numeric_limits<double>::infinity();
      for (const int neighbour : {stage - 1, stage + 1}) {
        if (neighbour < 0 || neighbour >= stages) continue;
        Costs both = doubled;
        double_stage(both, neighbour);
        best = std::min(best, makespan_of(plan, both, how));
      }
      time = best;
    }
    slowdowns.push_back(std::max(1.0, time / usual));
  }
  return slowdowns;
}

std::vector<FailureMonth> simulate_months(const FailureOptions& options, const Plan& plan, const Costs& costs,
                                          const SimulationOptions& how, double step) {
  std::vector<FailureMonth> months;
  for (const std::int64_t gpus : options.gpus) {
    LongRun run = long_run(options, gpus, step);
    run.slowdowns = takeover_slowdowns(plan, costs, how, gpus > plan.placement.stages() * options.tp);
    const auto spares = static_cast<int>(options.spares.value_or((run.hosts + 99) / 100));
    for (const int count : spares > 0 ? std::vector{0, spares} : std::vector{0})
      for (const Recovery recovery : {Recovery::restart, Recovery::takeover}) {
        run.spares = count;
        run.recovery = recovery;
        months.push_back(mean_month(gpus, run, options.runs));
      }
  }
  return months;
}

std::string months_json(const std::vector<FailureMonth>& months) {
  auto array = Json::array();
  for (const FailureMonth& month : months)
    array.push_back(Json::object({{"gpus", month.gpus},
                                  {"hosts", month.run.hosts},
                                  {"spares", month.run.spares},
                                  {"recovery", recovery_name(month.run.recovery)},
                                  {"goodput", month.mean.goodput},
                                  {"goodput_worst", month.worst},
                                  {"goodput_best", month.best},
                                  {"repeated", month.mean.repeated},
                                  {"down", month.mean.down},
                                  {"slowed", month.mean.slowed},
                                  {"saving", month.mean.saving},
                                  {"failures", month.failures},
                                  {"restarts", month.restarts},
                                  {"save_every", month.run.save_every},
                                  {"slowdown", *std::ranges::max_element(month.run.slowdowns)}}));
  return array.dump({.indent = 2, .order = JsonOrder::as_added}) + "\n";
}

std::string months_table(const FailureOptions& options, const std::vector<FailureMonth>& months) {
  std::string text;
  std::int64_t gpus = 0;
  for (const FailureMonth& month : months) {
    const LongRun& run = month.run;
    if (month.gpus != gpus) {
      gpus = month.gpus;
      text += fmt::format(
          "{:g} days on {} GPUs ({}): a failure every {:.3g} h, a step of {:.4g} s, a checkpoint every {:.4g} s; a host that "
          "computes for another one makes a step up to {:.2f} times as long\n",
          options.days, gpus, counted(run.hosts, "host"), 1 / (run.host_rate * run.hosts * hour), run.step, run.save_every,
          *std::ranges::max_element(run.slowdowns));
      text += fmt::format("  {:<9} {:>6}  {:>8} {:>15}  {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8}\n", "recovery", "spares",
                          "goodput", "of all runs", "repeated", "down", "slowed", "saving", "failures", "restarts");
    }
    const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
    text += fmt::format("  {:<9} {:>6}  {:>8} {:>15}  {:>8} {:>8} {:>8} {:>8}  {:>8.1f} {:>8.1f}\n",
                        recovery_name(run.recovery), run.spares, percent(month.mean.goodput),
                        fmt::format("{:.1f}-{:.1f} %", 100 * month.worst, 100 * month.best), percent(month.mean.repeated),
                        percent(month.mean.down), percent(month.mean.slowed), percent(month.mean.saving), month.failures,
                        month.restarts);
  }
  return text;
}

}  // namespace pipetrain
