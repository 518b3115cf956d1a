// Collectives between GPUs of one host that one process drives: each rank's kernel reads its peers' memory directly.
//
// One kernel a call, no copy through a staging buffer and no host in between: the kernels publish where their tensors are,
// meet, work, and leave together. A rank that comes late keeps the others' kernels waiting on their GPUs. Sums run in fp32
// (fp64 for f64) and in rank order.
#pragma once

#include <memory>
#include <vector>

#include "comm/groups.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// One handle per rank, in the devices' order; a device may appear more than once, which serves tests. At most 8 ranks. Besides
// what Group promises, all_reduce takes bf16, and reduce_scatter of bf16 may leave its sums as f32. The streams used must
// outlive the rank's handle, and freeing memory of a device while a call runs there may stop it for ever. Throws
// Error(unavailable) when the devices cannot reach each other's memory, or in a build without CUDA.
std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>& devices, GroupUse use = GroupUse::alone);

}  // namespace pipetrain
