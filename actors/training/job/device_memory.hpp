// The memory that a job needs on one device.
#pragma once

#include "actors/engine/stage_compute.hpp"
#include "core/mesh.hpp"

namespace pipetrain {

// One per device, in the mesh's order of ranks.
struct DeviceMemory {
  MeshCoordinate rank;
  MemoryUse use;
};

}  // namespace pipetrain
