#include <atomic>
#include <new>

#include "core/cuda/cuda_driver.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/host_gate.hpp"

namespace pipetrain {
namespace {

// The count is in locked host memory, which a GPU's streams can wait for by themselves.
class CudaHostGate final : public HostGate {
 public:
  explicit CudaHostGate(Device& device)
      : memory_(device.allocate_host(sizeof(Count), "a gate")), count_(new (memory_.data()) Count(0)) {}

  void wait(Stream& stream, std::uint32_t count) override {
    CudaStream& own = cuda_stream(stream);
    if (own.begin()) own.end(enqueue_wait_until(own.native(), memory_.data(), count), "waiting for the host");
  }
  void open(std::uint32_t count) override { count_->store(count); }

 private:
  using Count = std::atomic<std::uint32_t>;
  static_assert(Count::is_always_lock_free && sizeof(Count) == 4);

  Buffer memory_;
  Count* count_;
};

}  // namespace

std::unique_ptr<HostGate> make_cuda_host_gate(Device& device) { return std::make_unique<CudaHostGate>(device); }

}  // namespace pipetrain
