// Compares the memory that a job takes with its estimate.
#pragma once

#include <cstddef>
#include <vector>

#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/trainer.hpp"
#include "catch.hpp"

namespace pipetrain::test {

// Checks these uses of each device, and returns the estimate.
inline std::vector<DeviceMemory> check_estimate(const TrainJob& job, const std::vector<std::size_t MemoryUse::*>& uses) {
  std::vector<DeviceMemory> estimated = estimate_job(job).devices;
  const std::vector<DeviceMemory> taken = Trainer(job).memory();
  REQUIRE(taken.size() == estimated.size());
  for (std::size_t i = 0; i < taken.size(); ++i)
    for (const auto use : uses) CHECK(taken[i].use.*use == estimated[i].use.*use);
  return estimated;
}

}  // namespace pipetrain::test
