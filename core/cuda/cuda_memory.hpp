// What this process holds of a GPU's memory. For core/'s CUDA files and comm/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pipetrain {

struct DeviceMemory {
  char* begin = nullptr;
  std::size_t bytes = 0;
};

// What Device::allocate has given of this GPU, on any Device of it, and was not freed yet; by address. Thread-safe.
std::vector<DeviceMemory> allocated_memory(int device);

// "1.50 GiB", for messages.
std::string gib(std::size_t bytes);

}  // namespace pipetrain
