// Collectives between GPUs of several processes and hosts over NCCL's sends and receives: every rank sends each part to
// its owner, which adds them in rank order and sends the result to all, with the bits of cuda_group. NCCL builds only.
#pragma once

#include <memory>
#include <string>

#include "comm/groups.hpp"
#include "comm/nccl/nccl_comm.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// The handle of one rank.
class NcclGroup : public Group {
 public:
  // An abort no longer reaches this stream, which may then end before the group.
  virtual void forget(Stream& stream) = 0;
};

// The communicator must be settled, with the group's ranks. The device must outlive the group. Throws Error(out_of_memory).
std::shared_ptr<NcclGroup> make_nccl_group(std::shared_ptr<NcclComm> comm, Device& device, GroupUse use);

// Returns the most multiprocessors that a group's transfers take.
int nccl_group_blocks();

}  // namespace pipetrain
