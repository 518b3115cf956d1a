// Codes blocks on GPUs. In int8 the words and errors are those of the CPU to the bit; mean magnitudes are added in another
// order there.
#pragma once

#include <memory>

#include "comm/compressed/block_coder.hpp"

namespace pipetrain {

// Loads the kernels, for which it waits for the device: call it before any kernel may wait for its peers. Throws
// Error(unavailable) in a build without CUDA.
std::unique_ptr<BlockCoder> make_cuda_block_coder(Device& device, BlockCode code);

}  // namespace pipetrain
