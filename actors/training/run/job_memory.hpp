// Computes the memory that a job's devices need, and checks that the machine has it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/device_memory.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "core/error.hpp"
#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

// Returns one entry per device in the order dp, pp, tp, tp fastest; nothing is allocated.
std::vector<DeviceMemory> estimate_devices(const ParallelLayout& layout, const TrainJob& job);

// The memory of a run that ends before another begins in the same processes.
struct EndingMemory {
  std::map<std::string, std::size_t> bytes;  // by name of a device, or "the host"
  std::vector<DeviceMemory> devices;
};

// devices: estimate_devices(layout, job). Returns the error to throw where some device has less free memory than the
// job needs: Error(out_of_memory) with advice. No value where all have enough. other_bytes: bytes of CPU devices' memory
// that the run's other processes need.
std::optional<Error> memory_shortage(const ParallelLayout& layout, const TrainJob& job,
                                     const std::vector<DeviceMemory>& devices, std::size_t other_bytes = 0,
                                     const EndingMemory& ending = {});

// The needs of a job, found without allocating it: for `--dry-run`.
struct JobEstimate {
  schedules::Plan plan;
  std::vector<schedules::StageNeeds> needs;  // by stage
  std::vector<std::vector<Block>> blocks;    // by virtual stage
  std::vector<DeviceMemory> devices;
  std::size_t copied_bytes = 0;   // the most that a GPU copies to host memory after a step; 0: nothing, or no GPU
  std::size_t passed_bytes = 0;   // the most that a process passes on to its buddy after a step; 0: nothing
  std::optional<Error> shortage;  // thrown by a Trainer of this job if the machine has too little memory
};
// planned: the processes that the job would run in, if not this one alone; data between them takes memory too. ending: a job
// that runs in them now, and ends before this one begins; null: none. Throws Error(input) when the model cannot be laid out in
// this way.
JobEstimate estimate_job(const TrainJob& job, const std::optional<PlannedProcesses>& planned = {},
                         const TrainJob* ending = nullptr);

}  // namespace pipetrain
