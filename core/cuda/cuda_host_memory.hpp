// Host memory that GPUs copy from and to while the host continues. For core/'s CUDA files.
#pragma once

#include <cstddef>
#include <string>

#include "core/buffer.hpp"

namespace pipetrain {

// Locked for every GPU of the process; its bytes are unspecified. Many threads of the host make a large block. Throws
// Error(out_of_memory) where the host has too little lockable memory; `what` names its use. Thread-safe.
Buffer allocate_locked_memory(std::size_t bytes, const std::string& what, int device);

// See Device::lock_host_memory(). Holds for every GPU of the process, also after the Device is gone.
Buffer lock_memory(void* begin, std::size_t bytes, int device);

}  // namespace pipetrain
