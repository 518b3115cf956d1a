// What holds for groups of GPUs in several processes, whatever carries them.
#pragma once

#include <vector>

#include "core/mesh.hpp"

namespace pipetrain {

// Throws Error(unavailable) for ranks of one tensor-parallel group: those share every layer's work and must be in one process.
void refuse_tensor_group(const Mesh& mesh, const std::vector<int>& ranks);

}  // namespace pipetrain
