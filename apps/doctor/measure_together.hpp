// What doctor --measure does where several processes measure together: the devices of every host, and the link between every
// two processes.
#pragma once

#include <string>

#include "apps/options/process_options.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

// What a process measures.
struct MeasuredHost {
  DeviceKind kind = DeviceKind::cpu;
  int devices = 1, threads = 1;  // of the host; threads of one CPU device
  int gpu = 0;                   // whose links are this process's
};

struct MeasuredTogether {
  MeasuredDevices devices;
  std::string transport;  // what carried data, for people
};

// Blocks until all processes have joined and measured. What was measured, in every process. Throws Error as join_processes(),
// choose_transport() and measure_devices() do, and Error(peer_lost).
MeasuredTogether measure_together(const ProcessOptions& processes, const MeasuredHost& own);

}  // namespace pipetrain
