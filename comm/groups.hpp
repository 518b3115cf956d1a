// Makes the right kind of group for a run's devices: shared memory between CPU devices, peer memory between GPUs of one host.
#pragma once

#include <memory>
#include <vector>

#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// The work of a device while the group's collectives run.
enum class GroupUse {
  alone,             // nothing: the compute waits for the result
  overlaps_compute,  // matrix products: collectives leave them nearly all of a GPU
};

// Returns one handle per rank, in the devices' order. All devices must be of one kind and outlive the group. Throws
// Error(unavailable) for GPUs that cannot reach each other or are more than make_cuda_groups() takes, Error(internal)
// for a mixture of kinds.
std::vector<std::unique_ptr<Group>> make_groups(const std::vector<Device*>& devices);

}  // namespace pipetrain
