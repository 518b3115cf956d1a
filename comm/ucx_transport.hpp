// Ranks on CPUs of different processes, over UCX: shared memory, TCP, or RDMA where this UCX has it.
#pragma once

#include <memory>
#include <string>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

bool has_ucx() noexcept;
// Throws Error: unavailable in a build without UCX or where UCX does not start, peer_lost.
std::unique_ptr<Transport> make_ucx_transport(ControlPlane& control, const Mesh& mesh);

// One line for people: version of the library and the transports and devices that it finds here. Never throws; says so where
// this build has none.
std::string describe_ucx();

}  // namespace pipetrain
