// The plan that a job runs: a schedule's by name, or one that was given.
#pragma once

#include <vector>

#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

struct TrainJob;

// What the job's layout and model need at the end of a step.
schedules::EndOfStep end_of_step(const TrainJob& job);

// With everything that ends the step; a given plan that has none of it gets it as the schedules by name do. Throws Error(input)
// for a schedule that cannot be built, and for a given plan that does not go with the job's sizes or ends its step otherwise.
schedules::Plan plan_of(const TrainJob& job);

// Where the plan puts the parts of the model, without building all of it.
schedules::Placement placement_of(const TrainJob& job);

// The blocks of each of the placement's virtual stages: as the job's cut says, else by cost. Throws Error(input) where the
// model has too few blocks, or the cut does not go with it.
std::vector<std::vector<Block>> parts_of(const TrainJob& job, const schedules::Placement& placement);

}  // namespace pipetrain
