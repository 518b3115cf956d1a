#include "core/cuda/cuda_event.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/native_stream.hpp"

namespace pipetrain {
namespace {

// Leaves the other library's current device unchanged.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    cuda_check(cudaGetDevice(&before_), "asking for the device", device);
    if (before_ != device) cuda_check(cudaSetDevice(device), "choosing the device", device);
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

cudaStream_t native(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

void record_on_native(Event& event, std::uintptr_t stream, int device) {
  const CurrentDevice current(device);
  cuda_check(static_cast<CudaRecordable&>(event).record_on(native(stream), device), "recording an event", device);
}

void let_native_wait(const Event& event, std::uintptr_t stream, int device) {
  const CurrentDevice current(device);
  cuda_check(static_cast<const CudaRecordable&>(event).wait_on(native(stream)), "waiting for an event", device);
}

}  // namespace pipetrain
