// The plan that a job runs: a schedule's by name, or one that was given.
#pragma once

#include <memory>
#include <vector>

#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

struct TrainJob;

// For TrainJob::plan. Searches where the schedule is auto or solver. The plan has everything that ends the step; a given plan
// that has none of it gets it as the schedules by name do. Throws Error(input) for a schedule that cannot be built, and for a
// given plan that does not go with the job's sizes or ends its step otherwise.
std::shared_ptr<const schedules::Plan> build_plan(const TrainJob& job);

// The blocks of each of the placement's virtual stages: as the job's cut says, else by cost. Throws Error(input) where the
// model has too few blocks, or the cut does not go with it.
std::vector<std::vector<Block>> parts_of(const TrainJob& job, const schedules::Placement& placement);

}  // namespace pipetrain
