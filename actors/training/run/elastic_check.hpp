// Checks that the processes of an elastic run could take over from each other.
#pragma once

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Does nothing for a job that is not elastic. Throws Error(input) for one that runs in one process, and for one on
// several hosts where a state could not be held on two of them.
void check_elastic(const TrainJob& job);

}  // namespace pipetrain
