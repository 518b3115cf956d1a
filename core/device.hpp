// A device that computes: its memory, streams and events. There is one Device object per device in use; it outlives its
// streams, events and buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/buffer.hpp"
#include "core/device_kind.hpp"
#include "core/stream.hpp"

namespace pipetrain {

struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const DeviceId&) const = default;
};

std::string to_string(const DeviceId& id);  // "cpu:0"

struct MemoryInfo {
  std::size_t total = 0;  // bytes of the device; for the CPU, of what this process may use
  std::size_t free = 0;   // bytes that can still be allocated
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual DeviceId id() const = 0;
  virtual MemoryInfo memory() const = 0;
  // Uninitialised. Throws Error(out_of_memory) that names the device, `what` and the sizes. Thread-safe.
  virtual Buffer allocate(std::size_t bytes, const std::string& what) = 0;
  // Allocates host memory that this device's streams copy to and from without stopping the host: locked pages for a
  // GPU, ordinary memory for the CPU. Thread-safe.
  virtual Buffer allocate_host(std::size_t bytes, const std::string& what) { return allocate(bytes, what); }
  // Gives host memory that others made what allocate_host()'s has, until the returned buffer is freed, which the memory must
  // outlive. begin: at a page. Overlap with locked memory is an error. Throws Error(unavailable) where the machine does not
  // permit it. Thread-safe.
  virtual Buffer lock_host_memory(void* begin, std::size_t bytes) {
    return Buffer(begin, bytes, [](void*) {});
  }
  virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  // Returns an event that also keeps the time at which it completed; it costs somewhat more than make_event's.
  virtual std::unique_ptr<Event> make_timing_event() = 0;
  // Returns the seconds between the latest records of two completed timing events of this device, within some
  // microseconds. Throws Error when a record failed with its stream.
  virtual double seconds_between(const Event& begin, const Event& end) const = 0;
  // steady_nanoseconds() returns the time at which the latest record of a completed timing event completed, on the
  // host's steady clock, which all devices share. A GPU's own clock drifts from it by some microseconds a second, so
  // align_clock() compares the two; the stream must be idle, and the host waits some microseconds for it. Not
  // thread-safe, unlike the others. Throws like seconds_between().
  virtual void align_clock(Stream& idle) = 0;
  virtual std::int64_t steady_nanoseconds(const Event& event) const = 0;

 protected:
  Device() = default;
};

// Returns a CPU device: one stream thread per stream, and `threads` compute threads (including the stream's own) that
// share the tiles of one operation. Results do not depend on `threads`. Throws Error(input) when threads < 1.
std::unique_ptr<Device> make_cpu_device(int index, int threads);

// Returns the GPU with this CUDA ordinal. Throws Error(unavailable) in a build without CUDA or on a machine without that GPU.
std::unique_ptr<Device> make_cuda_device(int index);
// Returns the number of GPUs that this process can use; 0 in a build without CUDA.
int cuda_device_count();

}  // namespace pipetrain
