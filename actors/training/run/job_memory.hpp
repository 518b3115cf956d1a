// What a job's devices must hold, and whether the machine has that much.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "actors/training/job/device_memory.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "core/error.hpp"
#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

// One entry per device, dp, pp, tp with tp fastest; nothing is allocated.
std::vector<DeviceMemory> estimate_devices(const ParallelLayout& layout, const TrainJob& job);

// devices: estimate_devices(layout, job). What to throw where some device has less free than the job needs:
// Error(out_of_memory) that says what would help. Nothing where all of them have enough. beside: bytes that the run's other
// processes need of the memory of CPU devices.
std::optional<Error> memory_shortage(const ParallelLayout& layout, const TrainJob& job,
                                     const std::vector<DeviceMemory>& devices, std::size_t beside = 0);

// What a job would take, found without allocating it: for `--dry-run`.
struct JobEstimate {
  schedules::Plan plan;
  std::vector<schedules::StageNeeds> needs;  // by stage
  std::vector<std::vector<Block>> blocks;    // by virtual stage
  std::vector<DeviceMemory> devices;
  std::optional<Error> shortage;  // what a Trainer of this job would throw where the machine has too little memory
};
// planned: the processes that the job is to run in, where it is not this one alone: what goes between them takes memory too.
// Throws Error(input) when the model cannot be laid out so.
JobEstimate estimate_job(const TrainJob& job, const std::optional<PlannedProcesses>& planned = {});

}  // namespace pipetrain
