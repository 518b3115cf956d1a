// Inserts weight gradients into an order of forwards and input gradients: into the gaps where a stage would wait, and
// where memory requires them. Internal to schedules/.
#pragma once

#include <optional>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

struct FillOptions {
  // [stage] most microbatches from F to W, over all chunks.
  std::vector<int> caps;
  // W goes into a gap of at least this fraction of W; below 1 it delays the next action rather than leave the stage idle.
  double least_gap = 1;
};

struct Filled {
  std::vector<std::vector<Action>> stages;
  double makespan = 0;
};

// `order` holds F and I only, each row of a chunk in microbatch order; every W is put after its I. The W of a stage run
// in the order of their I. Returns no value when the order cannot keep the caps, or deadlocks. Runs in virtual time
// with the given costs.
std::optional<Filled> fill_weight_grads(const Placement& placement, int microbatches,
                                        const std::vector<std::vector<Action>>& order, const Costs& costs,
                                        const FillOptions& options);

}  // namespace pipetrain::schedules
