// The order that ends the step first within the stages' memory, as far as the given time finds it, and how far from the best it
// can be at most. The problem is that of OptPipe (arXiv 2510.05186), which gives it to a solver of mixed-integer programs; here
// annealing improves auto's plan, a tree of orders proves what is small enough, and bounds from the stages' work, memory and
// ways say the rest: schedules/order_*.hpp. Activations that leave the device are not part of it.
#pragma once

#include <cstdint>
#include <limits>

#include "schedules/search/auto_schedule.hpp"

namespace pipetrain::schedules {

struct SolverRequest {
  // As auto's. With max_chunks of 2 and more the solver takes the best of one chunk a stage, of two down and back up, and of
  // two one after the other.
  AutoRequest problem;
  double seconds = std::numeric_limits<double>::infinity();  // after auto's plan
  // Moves of the annealing and nodes of the tree. Where these end the search, the same request gives the same plan.
  std::int64_t iterations = std::numeric_limits<std::int64_t>::max();
  std::uint64_t seed = 0;
};

enum class SolverEnd : std::uint8_t {
  proved,      // the plan ends at the bound
  searched,    // the bound is what the best order takes with any room in queues; with a run's slots the plan ends later
  iterations,  // a limit
  seconds      // the other
};

struct Solved {
  Plan plan;            // no stages: no order fits the slots
  double makespan = 0;  // simulated
  double bound = 0;     // no order of these placements within these slots ends earlier; with any room in queues
  SolverEnd ended = SolverEnd::proved;
  std::int64_t iterations = 0;

  double gap() const { return makespan > bound ? (makespan - bound) / makespan : 0; }
};

// Never slower than build_auto() of the same problem. Throws std::invalid_argument as build_auto(), and where both limits are
// infinite or one is not positive.
Solved solve(const SolverRequest& request);

}  // namespace pipetrain::schedules
