// The transport over NCCL for ranks on GPUs of several hosts in different processes (it works on one host, too). A
// producer computes into a mirror in its own GPU's memory. A communicator of two ranks for each edge and lane, with its
// own stream on each side, carries the mirror into the slot: as a put, which copy engines run, where both ends have
// NCCL 2.29 and suitable GPUs, else as a send and a receive. A send and its receive begin once the data is ready and
// the slot is free, so nothing is posted ahead, no edge waits for another, and no kernel waits on a GPU that others
// compute on. A put waits for the data on the producer's GPU; the slot is free before its credit leaves, and the put is
// done before the consumer is told, so no GPU ever waits for a process that may have died.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// True when this build has NCCL; the host's library is loaded when the transport is made.
bool has_nccl() noexcept;
// Returns the bytes of a GPU's memory that a group of this many ranks keeps for data in flight; 0 in a build without NCCL.
std::size_t nccl_group_memory(int ranks);
// Describes in one line for people the version of the host's library and whether it puts, or why there is none. Never throws.
std::string describe_nccl();

// Edges use puts where both ends can; or all of them must (else opening them throws Error(unavailable) with the
// reason); or none does.
enum class NcclWay { any, put, send };
// Throws Error(unavailable) in a build without NCCL and where the host's library cannot be loaded.
std::unique_ptr<Transport> make_nccl_transport(ControlPlane& control, const Mesh& mesh, NcclWay way);

}  // namespace pipetrain
