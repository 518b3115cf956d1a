// What `pipetrain simulate` prints about the schedules it ran.
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

// How good a plan of the solver is.
struct SolverReport {
  double bound = 0;  // no plan of these costs and slots ends the step earlier
  double gap = 0;    // (makespan - bound) / makespan
  schedules::SolverEnd ended = schedules::SolverEnd::proved;
  std::int64_t iterations = 0;
};

// Steps that follow each other, one begun when the one before is over, or before its verdict.
struct FollowingReport {
  schedules::FollowingSteps off, on;
};

// One schedule's run.
struct SimulatedSchedule {
  std::string name;
  int pp = 1, chunks = 1, microbatches = 1, slices = 1;
  double ideal = 0;
  std::int64_t actions = 0;
  schedules::Summary summary;
  std::optional<JitterReport> jitter;
  std::optional<SolverReport> solver;
  std::optional<FollowingReport> following;  // where --post-validation asks for it and can
  std::vector<double> peak_bytes;            // per stage; empty where the costs do not tell
  std::optional<bool> fits;                  // the memory slots, where some were asked for
};

// The array of the contract: one object per schedule.
std::string simulation_json(const std::vector<SimulatedSchedule>& runs);
// One line per schedule.
std::string schedule_table(const std::vector<SimulatedSchedule>& runs);
// Where each stage of a run waits and what it holds; many stages are thinned out.
std::string stage_table(const SimulatedSchedule& run);
// The chain of actions that decided the time, e.g. "stage 0 F0, 1 F0 .. B3, 0 B3".
std::string critical_path_text(const schedules::Timeline& timeline);

}  // namespace pipetrain
