// The transport for ranks on GPUs of one host in different processes, over CUDA IPC. A mirror is the receiver's memory
// itself: a peer copy fills it, and both processes share the events that order it, so that no host is between two GPUs.
#pragma once

#include <memory>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

bool has_ipc() noexcept;
// Throws Error(unavailable) in a build without CUDA.
std::unique_ptr<Transport> make_ipc_transport(ControlPlane& control, const Mesh& mesh);

}  // namespace pipetrain
