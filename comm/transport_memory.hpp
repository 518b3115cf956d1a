// What transports keep in the memory of the devices that they join: known before there is one.
#pragma once

#include <cstddef>

#include "comm/transport.hpp"

namespace pipetrain {

// The first that can carry ranks on such devices, where their processes are on one host or not. Throws Error(internal).
TransportKind usual_transport(DeviceKind devices, bool one_host);
// Whether what goes to another process waits in memory of the producer's (Transport::mirrors), not in the receiver's.
bool keeps_mirrors(TransportKind kind);
// See Transport::group_memory().
std::size_t group_memory(TransportKind kind, int ranks);

}  // namespace pipetrain
