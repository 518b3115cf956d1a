// The output of `pipetrain simulate` about the schedules that it ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/search/solver.hpp"
#include "schedules/simulate/following_steps.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

struct JitterReport {
  int runs = 0;
  std::uint64_t seed = 0;
  double median = 0, p95 = 0;
};

// The quality of a plan of the solver.
struct SolverReport {
  double bound = 0;  // no plan of these costs and slots ends the step earlier
  double gap = 0;    // (makespan - bound) / makespan
  schedules::SolverEnd ended = schedules::SolverEnd::proved;
  std::int64_t iterations = 0;
};

// Consecutive steps, each begun when the previous one is over, or before its verdict.
struct FollowingReport {
  schedules::FollowingSteps off, on;
};

// The simulation of one schedule.
struct SimulatedSchedule {
  std::string name;
  int pp = 1, chunks = 1, microbatches = 1, slices = 1;
  double ideal = 0;
  std::int64_t actions = 0;
  schedules::Summary summary;
  std::optional<JitterReport> jitter;
  std::optional<SolverReport> solver;
  std::optional<FollowingReport> following;  // set if --post-validation asks for it and the plan supports it
  std::vector<double> peak_bytes;            // by stage; empty if the costs do not say
  std::optional<bool> fits;                  // true when the memory slots suffice; no value without a limit
};

// Returns the documented JSON array: one object for each schedule.
std::string simulation_json(const std::vector<SimulatedSchedule>& runs);
// Returns one line for each schedule.
std::string schedule_table(const std::vector<SimulatedSchedule>& runs);
// Returns where each stage of a run waits and what it holds; long lists of stages are thinned out.
std::string stage_table(const SimulatedSchedule& run);
// Returns the chain of actions that determined the time, e.g. "stage 0 F0, 1 F0 .. B3, 0 B3".
std::string critical_path_text(const schedules::Timeline& timeline);

}  // namespace pipetrain
