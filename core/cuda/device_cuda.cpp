#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/cuda/cuda_event.hpp"
#include "core/cuda/cuda_host_memory.hpp"
#include "core/cuda/cuda_memory.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/device.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Sorted by address, of all GPUs: an address belongs to one of them. Buffers may outlive their Device.
class Allocations {
 public:
  static Allocations& of_process() {
    static Allocations allocations;
    return allocations;
  }
  void add(void* begin, std::size_t bytes, int device) {
    const std::lock_guard lock(mutex_);
    held_[static_cast<char*>(begin)] = {bytes, device};
  }
  void remove(void* begin) {
    const std::lock_guard lock(mutex_);
    held_.erase(static_cast<char*>(begin));
  }
  std::vector<DeviceMemory> of(int device) const {
    const std::lock_guard lock(mutex_);
    std::vector<DeviceMemory> memory;
    for (const auto& [begin, allocation] : held_)
      if (allocation.device == device) memory.push_back({begin, allocation.bytes});
    return memory;
  }

 private:
  struct Allocation {
    std::size_t bytes;
    int device;
  };
  mutable std::mutex mutex_;
  std::map<char*, Allocation> held_;
};

// Counts the Device objects of each GPU.
class OpenDevices {
 public:
  static OpenDevices& of_process() {
    static OpenDevices devices;
    return devices;
  }
  void add(int device, int number) {
    const std::lock_guard lock(mutex_);
    counts_[device] += number;
  }
  int count(int device) const {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(device);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, int> counts_;
};

// Lets every pair of devices in use access each other's memory directly, where the links allow it: otherwise peer
// copies go through the host.
void enable_peer_access(int index) {
  static std::mutex mutex;
  static std::vector<int> opened;
  const std::lock_guard lock(mutex);
  for (const int other : opened) {
    if (other == index) return;
  }
  for (const int other : opened) {
    for (const auto& [from, to] : {std::pair(index, other), std::pair(other, index)}) {
      int possible = 0;
      cuda_check(cudaDeviceCanAccessPeer(&possible, from, to), "asking for peer access", from);
      if (possible == 0) continue;
      cuda_check(cudaSetDevice(from), "choosing the device", from);
      const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();  // clears the error
      } else {
        cuda_check(status, "enabling peer access to cuda:" + std::to_string(to), from);
      }
    }
  }
  cuda_check(cudaSetDevice(index), "choosing the device", index);
  opened.push_back(index);
}

// By default a GPU has eight queues, and streams that share one wait for each other: for ever, when the kernel of one waits for
// another GPU that waits for work behind it. So fewer are not taken either: the environments of other trainers ask for one.
// CUDA reads the variable when it creates the context.
void ask_for_queues() {
  constexpr const char* variable = "CUDA_DEVICE_MAX_CONNECTIONS";
  constexpr int queues = 32;
  const char* const asked = std::getenv(variable);
  if (asked == nullptr || std::atoi(asked) < queues) setenv(variable, std::to_string(queues).c_str(), 1);
}

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    ask_for_queues();
    cuda_check(cudaSetDevice(index), "choosing the device", index);
    cuda_check(cudaFree(nullptr), "creating the context", index);
    enable_peer_access(index);
    OpenDevices::of_process().add(index, 1);
  }
  ~CudaDevice() override { OpenDevices::of_process().add(index_, -1); }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  DeviceId id() const override { return {DeviceKind::cuda, index_}; }

  MemoryInfo memory() const override {
    MemoryInfo info;
    cuda_check(cudaSetDevice(index_), "choosing the device", index_);
    cuda_check(cudaMemGetInfo(&info.free, &info.total), "asking for the free memory", index_);
    return info;
  }

  Buffer allocate(std::size_t bytes, const std::string& what) override {
    if (bytes == 0) return {};
    void* data = nullptr;
    cuda_check(cudaSetDevice(index_), "choosing the device", index_);
    const cudaError_t status = cudaMalloc(&data, bytes);  // aligned to at least 256 bytes
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which is not sticky
      const MemoryInfo info = memory();
      throw Error(ErrorKind::out_of_memory, to_string(id()) + " has too little memory for " + what + ": " + gib(bytes) +
                                                " asked for, " + gib(info.free) + " of " + gib(info.total) + " free");
    }
    cuda_check(status, "allocating " + gib(bytes) + " for " + what, index_);
    Allocations::of_process().add(data, bytes, index_);
    return Buffer(data, bytes, [index = index_](void* memory) {
      Allocations::of_process().remove(memory);
      cudaSetDevice(index);
      cudaFree(memory);  // fails only after the device was lost, when nothing can be freed
    });
  }

  Buffer allocate_host(std::size_t bytes, const std::string& what) override {
    if (bytes == 0) return {};
    return allocate_locked_memory(bytes, what, index_);
  }
  Buffer lock_host_memory(void* begin, std::size_t bytes) override { return lock_memory(begin, bytes, index_); }

  std::unique_ptr<Stream> make_stream(const std::string& name) override { return std::make_unique<CudaStream>(*this, name); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(index_, false); }
  std::unique_ptr<Event> make_timing_event() override { return std::make_unique<CudaEvent>(index_, true); }

  double seconds_between(const Event& begin, const Event& end) const override {
    float milliseconds = 0;
    const cudaError_t status = cudaEventElapsedTime(&milliseconds, static_cast<const CudaEvent&>(begin).native(),
                                                    static_cast<const CudaEvent&>(end).native());
    if (status != cudaSuccess) cudaGetLastError();  // clears the error, so that the next caller does not take it for its own
    cuda_check(status, "reading the time between two events", index_);
    return 1e-3 * milliseconds;
  }

  void align_clock(Stream& idle) override {
    // Short steps need it only now and then: the clocks drift apart by some microseconds a second.
    if (aligned_ && std::chrono::steady_clock::now() - origin_time_ < std::chrono::seconds(1)) return;
    if (!origin_) origin_ = make_timing_event();
    // The event completes between two readings of the host's clock. A thread that lost its processor in between tries again.
    for (int tries = 0; tries < 4; ++tries) {
      const auto before = std::chrono::steady_clock::now();
      idle.record(*origin_);
      origin_->synchronize();
      const auto window = std::chrono::steady_clock::now() - before;
      origin_time_ = before + window / 2;
      aligned_ = window < std::chrono::microseconds(40);
      if (aligned_) return;
    }
  }

  std::int64_t steady_nanoseconds(const Event& event) const override {
    const std::chrono::duration<double> since(seconds_between(*origin_, event));
    const auto time = origin_time_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(since);
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
  }

 private:
  int index_;
  std::unique_ptr<Event> origin_;  // completed at origin_time_
  std::chrono::steady_clock::time_point origin_time_;
  bool aligned_ = false;  // origin_time_ is that precise
};

}  // namespace

void cuda_check(cudaError_t status, const std::string& what, int device) {
  if (status == cudaSuccess) return;
  const ErrorKind kind = status == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::peer_lost;
  throw Error(kind, "cuda:" + std::to_string(device) + ": " + what + " failed: " + cudaGetErrorString(status) + " (" +
                        cudaGetErrorName(status) + ")");
}

std::string gib(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
  return text;
}

std::vector<DeviceMemory> allocated_memory(int device) { return Allocations::of_process().of(device); }

int open_cuda_devices(int device) { return OpenDevices::of_process().count(device); }

std::unique_ptr<Device> make_cuda_device(int index) {
  const int count = cuda_device_count();
  if (index < 0 || index >= count) {
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(index) + " is not there: this process sees " +
                                            std::to_string(count) + " GPUs (nvidia-smi, CUDA_VISIBLE_DEVICES)");
  }
  return std::make_unique<CudaDevice>(index);
}

std::string cuda_device_name(int index) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) return properties.name;
  cudaGetLastError();
  return {};
}

namespace {

// Returns 0 where there is no such GPU.
int capability_of(int index) {
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess) return major;
  cudaGetLastError();
  return 0;
}

}  // namespace

bool cuda_multiplies_fp8(int index) { return capability_of(index) >= 9; }

bool cuda_is_hopper(int index) { return capability_of(index) == 9; }

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {  // no driver, or no GPU
    cudaGetLastError();
    return 0;
  }
  return count;
}

}  // namespace pipetrain
