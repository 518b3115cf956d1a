// The text that `--dry-run` prints of a job: its sizes, its plan, the blocks of each stage, and the memory of each device.
#pragma once

#include <string>

#include "actors/training/run/job_memory.hpp"

namespace pipetrain {

// Returns lines for a terminal. estimate: estimate_job(job).
std::string job_description(const TrainJob& job, const JobEstimate& estimate);

}  // namespace pipetrain
