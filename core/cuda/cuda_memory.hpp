// The devices that this process has open on a GPU, and the memory that it has allocated there. For core/'s CUDA files and
// comm/.
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

// Returns the number of Device objects that this process has open on this GPU. Each rank has its own, so a number above 1
// means that ranks share the GPU. Thread-safe.
int open_cuda_devices(int device);

// Returns "1.50 GiB", for messages.
std::string gib(std::size_t bytes);

}  // namespace pipetrain
