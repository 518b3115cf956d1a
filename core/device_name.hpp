// What the maker says of a device.
#pragma once

#include <string>

namespace pipetrain {

// Of the GPU with this CUDA ordinal: "NVIDIA H200". Empty in a build without CUDA, or where there is no such GPU.
std::string cuda_device_name(int index);

// Whether it multiplies matrices of 8 bits as training asks for (e4m3 by e5m2, one scale a matrix): Hopper GPUs and later ones.
// False in a build without CUDA, or where there is no such GPU.
bool cuda_multiplies_fp8(int index);

}  // namespace pipetrain
