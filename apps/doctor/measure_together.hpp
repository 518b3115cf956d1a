// What doctor --measure does where several processes measure together: the devices of every host, and the link between every
// two processes.
#pragma once

#include <optional>

#include "apps/options/process_options.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

struct CpuCount {
  int devices = 1, threads = 1;
};

// Blocks until all processes have joined and measured; of CPUs. What was measured, in every process. Throws Error as
// join_processes() and measure_devices() do, and Error(peer_lost).
MeasuredDevices measure_together(const ProcessOptions& processes, const CpuCount& cpu);

}  // namespace pipetrain
