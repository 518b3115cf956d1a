// A plan without gradients: every stage runs the forwards in microbatch order. For evaluating and for generating text.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain::schedules {

// One chunk a stage; no end of step. validate() refuses it, because it is no plan of a training step. It cannot
// deadlock: each stage passes its outputs on to the next in one order. Throws std::invalid_argument on a size below 1.
Plan forward_only_plan(int stages, int microbatches);

// Returns the needs of its stages, by stage, where only F reads inputs: enough slots to receive one microbatch while
// computing another.
std::vector<StageNeeds> forward_only_needs(const Plan& plan);

}  // namespace pipetrain::schedules
