// What a job's devices must hold, and whether the machine has that much.
#pragma once

#include <vector>

#include "actors/training/parallel_layout.hpp"
#include "actors/training/trainer.hpp"

namespace pipetrain {

// One entry per device, dp, pp, tp with tp fastest; nothing is allocated.
std::vector<DeviceMemory> estimate_devices(const ParallelLayout& layout, const TrainJob& job);

// Throws Error(out_of_memory) that says what would help when some device has less free than the job needs.
void check_memory(const ParallelLayout& layout, const TrainJob& job);
// The same for a job that is not to be run.
void check_job_memory(const TrainJob& job);

}  // namespace pipetrain
