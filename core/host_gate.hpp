// A counter that a host thread raises and that streams wait for. It lets file I/O threads order their work with a
// stream while the enqueueing thread waits for neither.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device.hpp"

namespace pipetrain {

// The counter begins at 0. It must outlive the waits of streams.
class HostGate {
 public:
  virtual ~HostGate() = default;
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;

  // Enqueues a wait: later work of the stream, which must be of the gate's device, waits until the counter has reached
  // `count`. Counts may wrap around: `count` is reached while the counter minus `count`, as a signed number, is not negative.
  virtual void wait(Stream& stream, std::uint32_t count) = 0;
  // Raises the counter. Work that waited for it sees everything that this thread wrote before. Thread-safe.
  virtual void open(std::uint32_t count) = 0;

 protected:
  HostGate() = default;
};

// Throws Error(unavailable) where a GPU's driver does not support it.
std::unique_ptr<HostGate> make_host_gate(Device& device);
std::unique_ptr<HostGate> make_cuda_host_gate(Device& device);

}  // namespace pipetrain
