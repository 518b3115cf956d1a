// The memory that transports take on the devices that they join, known before a transport exists.
#pragma once

#include <cstddef>

#include "comm/transport.hpp"

namespace pipetrain {

// Returns the first kind that can carry ranks on such devices, whose processes are on one host or not. Throws Error(internal).
TransportKind usual_transport(DeviceKind devices, bool one_host);
// True when data for another process waits in the producer's memory (Transport::mirrors), not in the receiver's.
bool keeps_mirrors(TransportKind kind);
// See Transport::group_memory().
std::size_t group_memory(TransportKind kind, int ranks);

}  // namespace pipetrain
