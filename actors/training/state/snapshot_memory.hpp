// Host memory of snapshots, which the layouts of a run use one after another: to lock memory for a GPU, and to unlock it, takes
// seconds for each 10 GB.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device.hpp"

namespace pipetrain {

// Thread-safe; owned by shared pointers. May outlive the devices.
class SnapshotMemory : public std::enable_shared_from_this<SnapshotMemory> {
 public:
  struct Places {
    std::vector<float*> at;              // one for each array, valid as long as `memory`
    std::shared_ptr<const void> memory;  // the last owner gives the memory back
  };
  // Returns places for arrays of these lengths, in elements: in memory that was given back, or else in memory as
  // Device::allocate_host() makes it, which all devices of this kind may use. Throws Error(out_of_memory) that names `what`.
  Places allocate(Device& device, const std::vector<std::size_t>& lengths, const std::string& what);

 private:
  struct Block {
    Buffer memory;
    DeviceKind kind;
    std::size_t used = 0;   // elements from its beginning
    std::size_t users = 0;  // that have places in it; without users all of it is free
  };
  struct Use;
  static float* take(Block& block, std::size_t length, Use& use);

  std::mutex mutex_;
  std::list<Block> blocks_;
};

}  // namespace pipetrain
