// The CUDA event behind an Event. For core/'s CUDA files only.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/event.hpp"

namespace pipetrain {

class CudaEvent : public Event {
 public:
  CudaEvent(int device, bool timing);
  ~CudaEvent() override;

  bool query() const override;
  void synchronize() const override;

  cudaEvent_t native() const noexcept { return event_; }
  // Only streams of an event's own device can record it. A slot's event belongs to the receiver until the sender, on another
  // device, first records it. The device must be current.
  void move_to(int device);
  // A record that the driver refused counts as complete: its stream failed, and nobody must wait for ever.
  void set_refused(bool refused) noexcept { refused_ = refused; }

 private:
  int device_;
  const bool timing_;
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> refused_{false};
};

}  // namespace pipetrain
