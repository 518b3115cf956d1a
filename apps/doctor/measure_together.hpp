// Measures for doctor --measure in several processes: the devices of every host, and the link between every two processes.
#pragma once

#include <string>

#include "apps/options/process_options.hpp"
#include "tuning/measured_devices.hpp"

namespace pipetrain {

// The devices that a process measures.
struct MeasuredHost {
  DeviceKind kind = DeviceKind::cpu;
  int devices = 1, threads = 1;  // of the host; threads of one CPU device
  int gpu = 0;                   // the GPU whose links this process measures
};

struct MeasuredTogether {
  MeasuredDevices devices;
  std::string transport;  // name of the transport, for people
};

// Blocks until all processes have joined and measured. Returns all measurements, in every process. Throws Error as
// join_processes(), choose_transport() and measure_devices() do, and Error(peer_lost).
MeasuredTogether measure_together(const ProcessOptions& processes, const MeasuredHost& own);

}  // namespace pipetrain
