// Properties of a device that depend on its model.
#pragma once

#include <string>

namespace pipetrain {

// Returns the name of the GPU with this CUDA ordinal: "NVIDIA H200". Empty in a build without CUDA, or where there is
// no such GPU.
std::string cuda_device_name(int index);

// True when the GPU multiplies 8-bit matrices as training requires (e4m3 by e5m2, one scale per matrix): Hopper and
// later. False in a build without CUDA, or where there is no such GPU.
bool cuda_multiplies_fp8(int index);

// True when the GPU has Hopper's products of warp groups (compute capability 9.0), which later GPUs lack. False as above.
bool cuda_is_hopper(int index);

}  // namespace pipetrain
