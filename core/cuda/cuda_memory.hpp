// The memory of a GPU that this process has allocated. For core/'s CUDA files and comm/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pipetrain {

struct DeviceMemory {
  char* begin = nullptr;
  std::size_t bytes = 0;
};

// Returns all live allocations of Device::allocate on this GPU, through any Device object, sorted by address. Thread-safe.
std::vector<DeviceMemory> allocated_memory(int device);

// Returns "1.50 GiB", for messages.
std::string gib(std::size_t bytes);

}  // namespace pipetrain
