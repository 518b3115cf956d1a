// Finds the order that ends the step first within the stages' memory, as far as the given time allows, and a bound on its
// distance from the best one. The problem is that of OptPipe (arXiv 2510.05186), which uses a solver of mixed-integer programs;
// here annealing improves auto's plan, a tree of orders proves small problems, and the stages' work, memory and paths give
// bounds for the rest: schedules/search/order_*.hpp. Offloading of activations is not part of it.
#pragma once

#include <cstdint>
#include <limits>

#include "schedules/search/auto_schedule.hpp"

namespace pipetrain::schedules {

struct SolverRequest {
  // As for auto. With max_chunks of 2 and more, the solver takes the best of one chunk a stage, two chunks down and
  // back up, and two chunks one after the other.
  AutoRequest problem;
  double seconds = std::numeric_limits<double>::infinity();  // after auto's plan
  // Moves of the annealing and nodes of the tree. Where this limit ends the search, the same request gives the same plan.
  std::int64_t iterations = std::numeric_limits<std::int64_t>::max();
  std::uint64_t seed = 0;
};

enum class SolverEnd : std::uint8_t {
  proved,      // the plan ends at the bound
  searched,    // the bound is the best order's end with any room in queues; with a run's slots the plan ends later
  iterations,  // the limit of iterations
  seconds      // the limit of seconds
};

struct Solved {
  Plan plan;            // no stages: no order fits the slots
  double makespan = 0;  // simulated
  double bound = 0;     // no order of these placements within these slots ends earlier, even with unlimited queues
  SolverEnd ended = SolverEnd::proved;
  std::int64_t iterations = 0;

  double gap() const { return makespan > bound ? (makespan - bound) / makespan : 0; }
};

// Never slower than build_auto() of the same problem. Throws std::invalid_argument as build_auto(), and where both
// limits are infinite or one is not positive.
Solved solve(const SolverRequest& request);

}  // namespace pipetrain::schedules
