// Checks that this machine can offload what a job asks for.
#pragma once

#include <optional>
#include <vector>

#include "actors/training/job/device_memory.hpp"

namespace pipetrain {

class Error;
struct TrainJob;

// Throws Error(input) where nothing would move, and for a folder that cannot hold files of states. Leaves nothing there.
void check_offload(const TrainJob& job);

// Returns the error to throw where host memory, or the disk, has less room than this process offloads to it. other_bytes: bytes
// of host memory that other processes of the run need.
std::optional<Error> offload_shortage(const TrainJob& job, const std::vector<DeviceMemory>& devices,
                                      std::size_t other_bytes = 0);

}  // namespace pipetrain
