// One end of one lane of an edge over NCCL: a communicator of two ranks with a stream of its own. NCCL builds only.
#pragma once

#include <memory>
#include <string>

#include "comm/nccl/nccl_comms.hpp"
#include "comm/slot.hpp"
#include "core/cuda_stream.hpp"

namespace pipetrain {

// By one thread at a time.
class NcclLane {
 public:
  enum class End { producer, consumer };

  // Begins to join; settle() ends it. The device outlives it.
  NcclLane(NcclComms& comms, const Bytes& name, End end, Device& device, int peer);

  void settle() { comm_->settle(); }
  // A first transfer, which sets up the connection: returns when the peer has enqueued its own.
  void rehearse(const Lane& lane);
  void synchronize() { stream_.synchronize(); }

  // Enqueues this end of a transfer between `lane`s, which waits for the lane's event and records the other one.
  void transfer(const Lane& lane);
  // Whether nothing is enqueued any more.
  bool idle() const;

 private:
  End end_;
  std::shared_ptr<NcclComm> comm_;
  CudaStream stream_;

  void move(void* data, std::size_t bytes);
};

}  // namespace pipetrain
