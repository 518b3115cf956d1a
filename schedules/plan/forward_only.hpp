// A plan without gradients: every stage runs the forwards in microbatch order. For evaluating and for generating text.
#pragma once

#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain::schedules {

// One chunk a stage; no end of step. It is no plan of a training step, so validate() does not take it: stages that each pass on
// to the next in one order cannot wait for each other in a circle. Throws std::invalid_argument on a size below 1.
Plan forward_only_plan(int stages, int microbatches);

// What its stages need, by stage, where inputs are read by F alone: slots enough that a stage can receive one microbatch while
// it computes another.
std::vector<StageNeeds> forward_only_needs(const Plan& plan);

}  // namespace pipetrain::schedules
