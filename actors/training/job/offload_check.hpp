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

// Returns the error to throw where host memory, or the disk, has less room than this process offloads to it. ending: the
// devices of a run of this process whose memory is free before the job begins.
std::optional<Error> offload_shortage(const TrainJob& job, const std::vector<DeviceMemory>& devices,
                                      const std::vector<DeviceMemory>& ending = {});

}  // namespace pipetrain
