// Collectives between GPUs of one host: each rank's kernel reads its peers' memory directly.
//
// One kernel a call, no copy through a staging buffer and no host in between: the kernels publish where their tensors are,
// meet, work, and leave together. A rank that comes late keeps the others' kernels waiting on their GPUs. Sums run in fp32
// (fp64 for f64) and in rank order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/groups.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

constexpr int max_cuda_group_ranks = 8;

// One handle per rank, in the devices' order; a device may appear more than once, which serves tests. At most 8 ranks. Besides
// what Group promises, all_reduce takes bf16 and f16, and reduce_scatter of these may leave its sums as f32. The streams used
// must outlive the rank's handle, and freeing memory of a device while a call runs there may stop it for ever. Throws
// Error(unavailable) when the devices cannot reach each other's memory, or in a build without CUDA.
std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>& devices, GroupUse use = GroupUse::alone);

// One rank's view of the others' memory where some run in other processes; ipc_group implements it.
class FarMemory {
 public:
  virtual ~FarMemory() = default;
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;

  // The rank's mailbox, as this rank's device reaches it: cuda_group_mailbox_bytes() of device memory, zero at first.
  virtual void* mailbox(int rank) const = 0;
  // As Group::share.
  virtual void share(const Tensor& memory) = 0;
  // Whether this rank has shared the memory that the tensor lies in.
  virtual bool shares(const Tensor& tensor) const = 0;
  // By rank, what to add to an address that the rank gives to reach it from this rank's device. Blocks until all ranks have
  // shared theirs; throws the cause of an abort.
  virtual std::array<std::int64_t, max_cuda_group_ranks> shifts() = 0;
  // Ends the blocking. Thread-safe.
  virtual void abort(const std::exception_ptr& cause) noexcept = 0;

 protected:
  FarMemory() = default;
};

// A rank of this process.
struct FarGroupRank {
  int rank = 0;
  Device* device = nullptr;
  std::shared_ptr<FarMemory> memory;
};

// As make_cuda_groups, for the ranks of this process in a group of `size` that spans several: handles in the order given. They
// have no pieces (in_pieces), as tensor-parallel groups would need.
std::vector<std::unique_ptr<Group>> make_far_cuda_groups(int size, const std::vector<FarGroupRank>& ranks, GroupUse use);
std::size_t cuda_group_mailbox_bytes();

}  // namespace pipetrain
