// Memory for the slots of this process that the other processes of its machine can map and fill themselves: then nothing is
// copied between them. What was given once is never given again: whoever writes late, because it was stopped when its edges
// were closed, harms nothing.
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
  // Of a CPU device; ordinary memory where this system lets nobody share. Throws as Device::allocate() does.
  Buffer allocate(Device& device, std::size_t bytes, const std::string& what);

  // The name of the memory in which these bytes lie; nothing where it did not give them, or nobody can share them.
  std::optional<SharedMemoryName> name_of(const void* data, std::size_t bytes) const;

 private:
  // A file for many slots, which takes memory only for what is touched.
  struct Chunk {
    SharedBuffer buffer;
    std::size_t used = 0;
  };

  mutable std::mutex mutex_;
  std::shared_ptr<Chunk> filling_;            // the newest; null: none yet
  std::vector<std::weak_ptr<Chunk>> chunks_;  // that lives as long as a buffer in it
};

}  // namespace pipetrain
