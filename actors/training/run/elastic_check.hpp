// Checks that the processes of an elastic run could take over from each other.
#pragma once

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Does nothing for a job that is not elastic. Throws Error(input) where it runs in one process, or where the loss of one
// process would lose a state that no other process has.
void check_elastic(const TrainJob& job);

}  // namespace pipetrain
