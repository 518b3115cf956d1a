// The CUDA stream of a Stream, and the conversion of CUDA's errors. Only for the backends under cuda/ and in comm/.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "core/device.hpp"

namespace pipetrain {

// Throws Error when `status` is not success, with the failed action, the device and CUDA's error text.
void cuda_check(cudaError_t status, const std::string& what, int device);

class CudaStream : public Stream {
 public:
  CudaStream(Device& device, const std::string& name);
  ~CudaStream() override;

  cudaStream_t native() const noexcept { return stream_; }
  int device_index() const noexcept { return index_; }

  // Makes the stream's device current in this host thread. Returns true when work may be enqueued: not after a failure.
  bool begin();
  // Call it after enqueueing: a status that is not success, or a failed launch, becomes the sticky failure.
  void end(cudaError_t status, const char* what);
  void end(const char* what) { end(cudaGetLastError(), what); }

  Device& device() const override { return device_; }
  void record(Event& event) override;
  void wait(const Event& event) override;
  void host_callback(std::function<void()> callback) override;
  void copy(void* target, const void* source, std::size_t bytes) override;
  void zero(const Tensor& tensor) override;
  void synchronize() override;
  // Also asks the driver, so that it finds a kernel's fault even where nothing was enqueued since. Not in a host callback.
  std::exception_ptr failure() const override;
  // Work that is already enqueued on the device still runs: only later calls are skipped.
  void fail(std::exception_ptr cause) override;

 private:
  struct Callback;

  Device& device_;
  const std::string name_;
  const int index_;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::exception_ptr failure_;
  mutable std::atomic<bool> failed_{false};
  mutable std::deque<std::shared_ptr<Callback>> callbacks_;  // not called yet, in order

  // Keeps the first failure. A failed device makes no callbacks any more, so this runs those that were enqueued.
  void notice(cudaError_t status, const char* what) const;
};

// The stream must belong to a CUDA device.
CudaStream& cuda_stream(Stream& stream);

}  // namespace pipetrain
