// Host memory that GPUs copy from and to while the host goes on. For core/'s CUDA files.
#pragma once

#include <cstddef>
#include <string>

#include "core/buffer.hpp"

namespace pipetrain {

// Locked, for every GPU of the process; its bytes are unspecified. Large memory is made by many of the host's threads
// at once.
// Throws Error(out_of_memory) where the host has too little that can be locked; what says for what it is. Thread-safe.
Buffer allocate_locked_memory(std::size_t bytes, const std::string& what, int device);

}  // namespace pipetrain
