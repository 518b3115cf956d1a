// A count that a thread of the host raises and that streams wait for: so whoever reads or writes files hands work to a stream,
// and the thread that enqueues waits for neither.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.hpp"

namespace pipetrain {

// The count begins at 0. It outlives what streams wait for.
class HostGate {
 public:
  virtual ~HostGate() = default;
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;

  // Enqueued: later work of the stream, which is of the gate's device, waits until the count has reached this one. Counts may
  // wrap around: one is reached while their difference, as a signed number, is not negative.
  virtual void wait(Stream& stream, std::uint32_t count) = 0;
  // Raises the count. What this thread has written by then is seen by work that waited for it. Thread-safe.
  virtual void open(std::uint32_t count) = 0;

 protected:
  HostGate() = default;
};

// Throws Error(unavailable) where a GPU's driver lacks it.
std::unique_ptr<HostGate> make_host_gate(Device& device);
std::unique_ptr<HostGate> make_cuda_host_gate(Device& device);

}  // namespace pipetrain
