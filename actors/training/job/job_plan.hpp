// The plan that a job runs: that of a schedule by name, or a given one.
#pragma once

#include <memory>
#include <vector>

#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

struct TrainJob;

// Builds TrainJob::plan; searches for it where the schedule is auto or solver. The plan has all actions that end the
// step: a given plan without any of them gets them as the schedules by name do. Throws Error(input) for a schedule that
// cannot be built, and for a given plan that does not suit the job's sizes or ends its step in another way.
std::shared_ptr<const schedules::Plan> build_plan(const TrainJob& job);

// Returns the blocks of each of the placement's virtual stages, cut as the job says, else by cost. Throws Error(input)
// where the model has too few blocks, or the cut does not suit it.
std::vector<std::vector<Block>> parts_of(const TrainJob& job, const schedules::Placement& placement);

}  // namespace pipetrain
