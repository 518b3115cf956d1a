// How fast the links between the processes of a run are.
#pragma once

#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Between two processes while all others are silent.
struct LinkMeasurement {
  int one = 0, other = 0;  // one < other
  double rate = 0;         // bytes per second of large messages, in the slower direction
  double latency = 0;      // seconds of a message of 1 KB, from a thread that sends to one that slept: see thread_latency()
};

// Of every two processes, one pair after the other, each for about half a second. Every process of the run calls it with the
// device, of its own, that the transport is to reach, and gets all. Throws Error (peer_lost, out_of_memory).
std::vector<LinkMeasurement> measure_links(ControlPlane& control, Transport& transport, Device& device);

}  // namespace pipetrain
