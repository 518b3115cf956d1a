// Refuses what does not go with steps that begin before the verdict on the one before (JobSettings::post_validation).
#pragma once

#include <vector>

#include "schedules/plan/validate.hpp"

namespace pipetrain {

class Mesh;
struct TrainJob;

// Throws Error(input) for a job with post-validation that has something which is not built with it.
void check_post_validation(const TrainJob& job);
// Likewise, where the ranks of a stage run in several processes; `stages`: its mesh has a rank for each part of one.
void check_post_validation(const TrainJob& job, const Mesh& stages);

// By stage: whether it is done with a step of the plan half a forward or more before the last one, where F = I = W, and so has
// the time to begin the coming one. `needs`: what validate() gave.
std::vector<bool> stages_that_wait(const schedules::Plan& plan, const std::vector<schedules::StageNeeds>& needs);

}  // namespace pipetrain
