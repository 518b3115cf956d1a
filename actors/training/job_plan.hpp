// The plan that a job runs: a schedule's by name, or one that was given.
#pragma once

#include "schedules/plan.hpp"

namespace pipetrain {

struct TrainJob;

// What the job's layout and model need at the end of a step.
schedules::EndOfStep end_of_step(const TrainJob& job);

// With everything that ends the step; a given plan that has none of it gets it as the schedules by name do. Throws Error(input)
// for a schedule that cannot be built, and for a given plan that does not go with the job's sizes or ends its step otherwise.
schedules::Plan plan_of(const TrainJob& job);

// Where the plan puts the parts of the model, without building all of it.
schedules::Placement placement_of(const TrainJob& job);

}  // namespace pipetrain
