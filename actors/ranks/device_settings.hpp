// The devices that the ranks of a run compute on.
#pragma once

#include <vector>

#include "core/device_kind.hpp"

namespace pipetrain {

struct DeviceSettings {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> gpus;  // ordinals by rank, over several processes by this process's ranks; empty on the CPU
  int threads = 1;        // compute threads of one CPU device
};

}  // namespace pipetrain
