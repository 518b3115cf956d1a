// Memory for the slots of this process that other processes of its machine can map and fill themselves, so that nothing
// is copied between them. Memory is never given out twice: a process that was stopped when its edges were closed, and
// writes late, does no harm.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/ucx/ucx_shared_memory.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Thread-safe. The buffers may outlive it.
class UcxSlotMemory {
 public:
  // Allocates memory of a CPU device; ordinary memory where this system cannot share any. Throws as Device::allocate() does.
  Buffer allocate(Device& device, std::size_t bytes, const std::string& what);

  // Returns the name of the memory that contains these bytes; no value where it is not from this object, or not shared.
  std::optional<SharedMemoryName> name_of(const void* data, std::size_t bytes) const;

 private:
  // A file for many slots, which only takes memory for touched pages.
  struct Chunk {
    SharedBuffer buffer;
    std::size_t used = 0;
  };

  mutable std::mutex mutex_;
  std::shared_ptr<Chunk> filling_;            // the newest; null: none yet
  std::vector<std::weak_ptr<Chunk>> chunks_;  // each lives as long as a buffer in it
};

}  // namespace pipetrain
