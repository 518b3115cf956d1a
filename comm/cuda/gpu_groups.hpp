// What holds for groups of GPUs in several processes, whatever carries them.
#pragma once

#include <vector>

#include "comm/control_plane.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// Whether these ranks share the work of every layer: a tensor-parallel group, which needs the other ranks' memory at hand.
bool is_tensor_group(const Mesh& mesh, const std::vector<int>& ranks);

// Throws Error(unavailable), naming two ranks, where not all of them run on one host.
void require_one_host(const ControlPlane& control, const Mesh& mesh, const std::vector<int>& ranks);

}  // namespace pipetrain
