// What a job's devices must hold, and whether the machine has that much.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "actors/training/job/device_memory.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "core/error.hpp"

namespace pipetrain {

// One entry per device, dp, pp, tp with tp fastest; nothing is allocated.
std::vector<DeviceMemory> estimate_devices(const ParallelLayout& layout, const TrainJob& job);

// devices: estimate_devices(layout, job). What to throw where some device has less free than the job needs:
// Error(out_of_memory) that says what would help. Nothing where all of them have enough. beside: bytes that the run's other
// processes need of the memory of CPU devices.
std::optional<Error> memory_shortage(const ParallelLayout& layout, const TrainJob& job,
                                     const std::vector<DeviceMemory>& devices, std::size_t beside = 0);

}  // namespace pipetrain
