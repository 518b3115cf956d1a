// A device's queue of work: enqueued work runs in order, asynchronously to the host. The CPU has streams too, so
// callers need not distinguish devices.
//
// Enqueueing never waits for the work. One host thread at a time may enqueue to a stream. The first failure of enqueued
// work is sticky: later work is skipped, records and host callbacks still run (so that nobody waits for ever), and
// synchronize() throws.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

#include "core/event.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

class Device;

class Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual Device& device() const = 0;

  // The event completes when all work enqueued so far has completed. The event must be of the same kind of device.
  virtual void record(Event& event) = 0;
  // Later work of this stream waits for the event's latest record; the host does not.
  virtual void wait(const Event& event) = 0;
  // Runs on some host thread after all previous work, also after a failure. It must be short, must not block and must
  // not throw.
  virtual void host_callback(std::function<void()> callback) = 0;

  // Copies bytes between memory this device can reach; source and target must not overlap.
  virtual void copy(void* target, const void* source, std::size_t bytes) = 0;
  virtual void zero(const Tensor& tensor) = 0;

  // Blocks the host until everything enqueued has run; throws the sticky failure, if any.
  virtual void synchronize() = 0;
  // Returns the sticky failure, or null. Thread-safe, never blocks.
  virtual std::exception_ptr failure() const = 0;
  // Makes the stream fail with this cause unless it has failed already; work that has not begun is skipped. Thread-safe.
  virtual void fail(std::exception_ptr cause) = 0;

 protected:
  Stream() = default;
};

// Waits for the stream before memory that its work writes is freed, for example after a failed allocation. Ignores a
// failure of the stream, which its other users get.
inline void finish_before_freeing(Stream& stream) noexcept {
  try {
    stream.synchronize();
  } catch (...) {
  }
}

}  // namespace pipetrain
