// What a job would take, found without allocating it: for `--dry-run`.
#pragma once

#include <optional>
#include <vector>

#include "actors/training/job/device_memory.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "core/error.hpp"
#include "model/config/block.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

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
