// What the maker calls a device.
#pragma once

#include <string>

namespace pipetrain {

// Of the GPU with this CUDA ordinal: "NVIDIA H200". Empty in a build without CUDA, or where there is no such GPU.
std::string cuda_device_name(int index);

}  // namespace pipetrain
