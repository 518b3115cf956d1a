// One end of one lane of an edge over NCCL: a communicator of two ranks with its own stream, which sends and receives,
// or puts. NCCL builds only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl_comms.hpp"
#include "comm/slot.hpp"
#include "core/cuda/cuda_stream.hpp"

namespace pipetrain {

// Used by one thread at a time.
class NcclLane {
 public:
  enum class End { producer, consumer };

  // Begins to join; settle() completes it. The device must outlive it.
  NcclLane(NcclComms& comms, const Bytes& name, End end, Device& device, int peer);

  void settle() { comm_->settle(); }
  // True when this lane can put; valid once it is settled.
  bool can_put() const { return comm_->can_put(); }
  // From now on transfers are puts between these lanes of the two ends' slots, by slot, in memory of NcclMemory.
  // Returns when the peer has called it too; synchronize() reports failures.
  void use_puts(const std::vector<Lane>& slots);
  // Runs a first transfer of slot 0, which sets up the connection: returns when the peer has enqueued its end.
  void rehearse(const Lane& lane);
  void synchronize() { stream_.synchronize(); }

  // Enqueues this end of a transfer between the `lane`s of a slot: it waits for one of the lane's events and records
  // the other. The producer runs a put alone: the consumer only waits for it.
  void transfer(const Lane& lane, int slot);
  // True when nothing is enqueued any more.
  bool idle() const;
  bool failed() const { return stream_.failure() != nullptr; }

 private:
  End end_;
  std::shared_ptr<NcclComm> comm_;
  CudaStream stream_;
  std::vector<void*> windows_;  // by slot; empty: it sends and receives

  void move(void* data, std::size_t bytes, int slot);
  void enqueue(void* data, std::size_t bytes, int slot);
};

}  // namespace pipetrain
