// Measures the links between the processes of a run.
#pragma once

#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Measured between two processes while all others are silent.
struct LinkMeasurement {
  int one = 0, other = 0;  // one < other
  double rate = 0;         // bytes per second of large messages, in the slower direction
  double latency = 0;      // seconds of a message of 1 KB to a sleeping thread: see thread_latency()
};

// Measures every pair of processes, one after the other, each for about half a second. Every process of the run calls
// it with its device that the transport is to reach, and gets all results. Throws Error (peer_lost, out_of_memory).
std::vector<LinkMeasurement> measure_links(ControlPlane& control, Transport& transport, Device& device);

}  // namespace pipetrain
