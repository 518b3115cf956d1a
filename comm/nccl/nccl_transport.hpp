// Ranks on GPUs of several hosts in different processes, over NCCL (works on one host, too). A producer computes into a mirror
// in its own GPU's memory; a communicator of two ranks for each edge and lane, with a stream of its own on each side, carries
// it into the slot: as a put, which copy engines do, where both ends have NCCL 2.29 and GPUs for it, else as a send and a
// receive. Both ends of those begin once the data is there and the slot is free, so nothing is posted ahead, no edge waits for
// another one, and no kernel waits on a GPU that others compute on. A put waits for the data on the producer's GPU; the slot is
// free before its credit leaves, and the put done before the consumer hears of it, so that no GPU ever waits for a process
// that may have died.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Whether this build has it; the host's library is loaded when the transport is made.
bool has_nccl() noexcept;
// Bytes of a GPU's memory that a group of so many ranks keeps for pieces on their way; 0 in a build without NCCL.
std::size_t nccl_group_memory(int ranks);
// One line for people: the version of the host's library and whether it puts, or why there is none. Never throws.
std::string describe_nccl();

// How edges are carried: by puts where both ends can, on all (else opening them throws Error(unavailable) with the reason), or
// on none.
enum class NcclWay { any, put, send };
// Throws Error(unavailable) in a build without NCCL and where the host's library cannot be loaded.
std::unique_ptr<Transport> make_nccl_transport(ControlPlane& control, const Mesh& mesh, NcclWay way);

}  // namespace pipetrain
