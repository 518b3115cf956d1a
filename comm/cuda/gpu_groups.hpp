// Rules for groups of GPUs in several processes that hold for every transport.
#pragma once

#include <vector>

#include "comm/control_plane.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// True when these ranks share the work of every layer: a tensor-parallel group, which must reach the other ranks' memory.
bool is_tensor_group(const Mesh& mesh, const std::vector<int>& ranks);

// Throws Error(unavailable), naming two ranks, where not all of them run on one host.
void require_one_host(const ControlPlane& control, const Mesh& mesh, const std::vector<int>& ranks);

}  // namespace pipetrain
