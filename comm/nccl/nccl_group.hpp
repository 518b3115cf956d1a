// Collectives between GPUs of several processes and hosts over NCCL's sends and receives: every rank sends each part to its
// owner, which adds them in rank order and gives the result to all: the bits of cuda_group. NCCL builds only.
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
  // An abort does not reach this stream any more, which may then end before the group.
  virtual void forget(Stream& stream) = 0;
};

// The communicator is settled and its ranks are the group's. The device outlives it. Throws Error(out_of_memory).
std::shared_ptr<NcclGroup> make_nccl_group(std::shared_ptr<NcclComm> comm, Device& device, GroupUse use);

// Multiprocessors that a group's transfers take at most.
int nccl_group_blocks();

}  // namespace pipetrain
