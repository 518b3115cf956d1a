#pragma once

#include <cstddef>
#include <string>

#include "core/device.hpp"
#include "core/threads/tile_pool.hpp"

namespace pipetrain {

// Throws Error(out_of_memory), naming the device, `what` and the sizes, where the device has fewer free bytes:
// otherwise the kernel promises more memory than it has and kills the process later. Thread-safe.
void require_free(const Device& device, std::size_t bytes, const std::string& what);

class CpuDevice : public Device {
 public:
  CpuDevice(int index, int threads);

  DeviceId id() const override { return {DeviceKind::cpu, index_}; }
  MemoryInfo memory() const override;
  Buffer allocate(std::size_t bytes, const std::string& what) override;
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Event> make_timing_event() override { return make_event(); }  // every event keeps its time
  double seconds_between(const Event& begin, const Event& end) const override;
  void align_clock(Stream&) override {}
  std::int64_t steady_nanoseconds(const Event& event) const override;

  TilePool& tiles() { return tiles_; }

 private:
  int index_;
  TilePool tiles_;
};

}  // namespace pipetrain
