// Collectives between GPUs of one host: each rank's kernel reads its peers' memory directly.
//
// One kernel per call, without a staging buffer and without the host: the kernels publish the addresses of their
// tensors, meet, work, and leave together. A late rank keeps the others' kernels waiting on their GPUs. Sums run in
// fp32 (fp64 for f64) and in rank order.
//
// Where ranks share a GPU, a kernel that waits may keep the GPU from the rank that it waits for. There the streams meet
// instead, before and after the kernels, by events that the ranks' threads exchange (CudaPieces::together()).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/cuda/cuda_pieces.hpp"
#include "comm/cuda/far_memory.hpp"
#include "comm/groups.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Returns one handle per rank, in the devices' order; a device may appear more than once, for tests. At most 8 ranks.
// In addition to Group's types, all_reduce takes bf16 and f16, and reduce_scatter of these may write its sums as f32.
// Streams must outlive the rank's handle, and freeing memory of a device while a call runs there may deadlock. Throws
// Error(unavailable) when the devices cannot reach each other's memory, or in a build without CUDA.
std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>& devices);

// A rank of this process in a group over several processes.
struct FarGroupRank {
  int rank = 0;
  Device* device = nullptr;
  std::shared_ptr<FarMemory> memory;
  std::shared_ptr<PieceMeeting> pieces;
};

// A group over several processes; the same in all of them.
struct FarGroup {
  int size = 0;
  bool gpus_are_shared = false;  // share_gpus() of any process's ranks
};

// Makes groups as make_cuda_groups() does, for the ranks of this process in a group over several processes. Returns handles
// in the given order.
std::vector<std::unique_ptr<Group>> make_far_cuda_groups(const FarGroup& group, const std::vector<FarGroupRank>& ranks);
// Returns true where ranks of this process share one of these GPUs.
bool share_gpus(const std::vector<Device*>& devices);
std::size_t cuda_group_mailbox_bytes();

}  // namespace pipetrain
