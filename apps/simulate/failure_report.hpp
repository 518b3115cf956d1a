// The months of `pipetrain simulate --failures`.
#pragma once

#include <string>
#include <vector>

#include "apps/simulate/failure_options.hpp"
#include "schedules/simulate/long_run.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain {

// Simulations of one kind of month. Shares are means over the runs.
struct FailureMonth {
  std::int64_t gpus = 0;
  schedules::LongRun run;
  double worst = 0, best = 0;  // goodput of any of the runs
  schedules::LongRunResult mean;
  double failures = 0, restarts = 0;  // means
};

// How a step is slowed for each stage whose ranks a host computes besides its own: by another replica of the same stage, or
// where there is no other, by a neighbouring stage, whichever is faster.
std::vector<double> takeover_slowdowns(const schedules::Plan& plan, const schedules::Costs& costs,
                                       const schedules::SimulationOptions& how, bool replicas);

// step: seconds of an undisturbed step.
std::vector<FailureMonth> simulate_months(const FailureOptions& options, const schedules::Plan& plan,
                                          const schedules::Costs& costs, const schedules::SimulationOptions& how, double step);

// Returns an array of objects, one for each month.
std::string months_json(const std::vector<FailureMonth>& months);
std::string months_table(const FailureOptions& options, const std::vector<FailureMonth>& months);

}  // namespace pipetrain
