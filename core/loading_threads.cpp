#include "core/loading_threads.hpp"

#include <algorithm>
#include <thread>

#include "core/cpu_device.hpp"

namespace pipetrain {

unsigned loading_threads(Device& device) {
  if (auto* const cpu = dynamic_cast<CpuDevice*>(&device)) return cpu->tiles().threads();
  return std::max(1U, std::thread::hardware_concurrency() / static_cast<unsigned>(cuda_device_count()));
}

}  // namespace pipetrain
