// The number of threads that load a rank's tensors.
#pragma once

#include "core/device.hpp"

namespace pipetrain {

// GPUs share the host's cores while they are loaded; a CPU device has its own.
unsigned loading_threads(Device& device);

}  // namespace pipetrain
