// Whether a job's offloading is possible on this machine.
#pragma once

#include <optional>
#include <vector>

#include "actors/training/job/device_memory.hpp"
#include "core/error.hpp"

namespace pipetrain {

struct TrainJob;

// Throws Error(input) where nothing would move, and for a folder that cannot hold files of states. Leaves nothing there.
void check_offload(const TrainJob& job);

// What to throw where the host, or the disk, has less room than the devices of this process are to keep there. beside: bytes
// of the host that other processes of the run keep there.
std::optional<Error> offload_shortage(const TrainJob& job, const std::vector<DeviceMemory>& devices, std::size_t beside = 0);

}  // namespace pipetrain
