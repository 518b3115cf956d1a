// One end of one lane of an edge over NCCL: a communicator of two ranks with a stream of its own, which sends and receives, or
// puts. NCCL builds only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl_comms.hpp"
#include "comm/slot.hpp"
#include "core/cuda/cuda_stream.hpp"

namespace pipetrain {

// By one thread at a time.
class NcclLane {
 public:
  enum class End { producer, consumer };

  // Begins to join; settle() ends it. The device outlives it.
  NcclLane(NcclComms& comms, const Bytes& name, End end, Device& device, int peer);

  void settle() { comm_->settle(); }
  // Once it is settled: whether this lane can put.
  bool can_put() const { return comm_->can_put(); }
  // From now on transfers are puts between these lanes of the two ends' slots, by slot: memory of NcclMemory. Returns when the
  // peer has called it too; synchronize() tells what failed.
  void use_puts(const std::vector<Lane>& slots);
  // A first transfer of slot 0, which sets up the connection: returns when the peer has enqueued its own.
  void rehearse(const Lane& lane);
  void synchronize() { stream_.synchronize(); }

  // Enqueues this end of a transfer between the `lane`s of a slot, which waits for the lane's event and records the other one.
  // A put is all the producer's doing: the consumer only waits for it.
  void transfer(const Lane& lane, int slot);
  // Whether nothing is enqueued any more.
  bool idle() const;
  bool failed() const { return stream_.failure() != nullptr; }

 private:
  End end_;
  std::shared_ptr<NcclComm> comm_;
  CudaStream stream_;
  std::vector<void*> windows_;  // by slot; none: it sends and receives

  void move(void* data, std::size_t bytes, int slot);
  void enqueue(void* data, std::size_t bytes, int slot);
};

}  // namespace pipetrain
