#include "core/host_gate.hpp"

#include <atomic>

#include "core/cpu_stream.hpp"

namespace pipetrain {
namespace {

class CpuHostGate final : public HostGate {
 public:
  void wait(Stream& stream, std::uint32_t count) override {
    cpu_stream(stream).enqueue([this, count] {
      for (auto now = count_.load(std::memory_order_acquire); static_cast<std::int32_t>(now - count) < 0;
           now = count_.load(std::memory_order_acquire))
        count_.wait(now, std::memory_order_acquire);
    });
  }
  void open(std::uint32_t count) override {
    count_.store(count, std::memory_order_release);
    count_.notify_all();
  }

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace

std::unique_ptr<HostGate> make_host_gate(Device& device) {
  if (device.id().kind == DeviceKind::cuda) return make_cuda_host_gate(device);
  return std::make_unique<CpuHostGate>();
}

}  // namespace pipetrain
