// The devices that the ranks of a run compute on.
#pragma once

#include <map>
#include <vector>

#include "core/device_kind.hpp"

namespace pipetrain {

struct DeviceSettings {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> gpus;  // ordinals by rank, over several processes by this process's ranks; empty on the CPU
  // The GPUs of all ranks that run on this host at first. A rank keeps its GPU when another process of the host takes it over.
  std::map<int, int> gpu_of_rank = {};
  int threads = 1;  // compute threads of one CPU device
};

}  // namespace pipetrain
