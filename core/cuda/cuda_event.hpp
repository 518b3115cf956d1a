// The CUDA event of an Event. For core/'s CUDA files and comm/.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "core/event.hpp"

namespace pipetrain {

// An event that a stream of a GPU can record and wait for: one of CUDA's own, or one that processes share
// (comm/cuda/cuda_shared_event.hpp).
class CudaRecordable : public Event {
 public:
  // Both enqueue to a stream of this device, which must be current. Not thread-safe against each other.
  virtual cudaError_t record_on(cudaStream_t stream, int device) = 0;
  virtual cudaError_t wait_on(cudaStream_t stream) const = 0;

  // For events that processes share. recorded(): at the end that records, the number of records, which is sent to the
  // other end with each record's message. expect(): at the end that waits, the record that wait_on(), query() and
  // synchronize() refer to from now on.
  virtual std::uint32_t recorded() const noexcept { return 0; }
  virtual void expect(std::uint32_t record) noexcept { static_cast<void>(record); }
};

class CudaEvent : public CudaRecordable {
 public:
  CudaEvent(int device, bool timing);
  ~CudaEvent() override;

  bool query() const override;
  void synchronize() const override;

  // A record that the driver refused counts as complete: its stream failed, and nobody must wait for ever.
  cudaError_t record_on(cudaStream_t stream, int device) override;
  cudaError_t wait_on(cudaStream_t stream) const override;

  cudaEvent_t native() const noexcept { return event_; }

 private:
  // Only streams of an event's own device can record it. A slot's event belongs to the receiver until the sender, on
  // another device, first records it. The device must be current.
  void move_to(int device);

  int device_;
  const bool timing_;
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> refused_{false};
};

}  // namespace pipetrain
