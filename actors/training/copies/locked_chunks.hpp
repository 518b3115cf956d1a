// Locks shared memory for a device chunk by chunk, so that the device copies to and from it without threads of the host. The
// kernel makes and zeroes pages first, some seconds for large states; steps need not wait for that, as copies find out how
// far it has come. Shared memory leaves a host's memory only for a swap device, so locking it takes little from other programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/copies/shared_memory.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"

namespace pipetrain {

class LockedChunks {
 public:
  // A chunk is short work: the driver lets no other thread of the process enqueue while it locks one.
  static constexpr std::size_t usual_chunk_bytes = std::size_t{64} << 20;

  // Locks nothing yet. chunk_bytes: a multiple of the page's.
  explicit LockedChunks(std::shared_ptr<SharedMemory> memory, std::size_t chunk_bytes = usual_chunk_bytes);

  // Locks the next chunk, for as long as this object lives. Returns false where none is left. Throws
  // Device::lock_host_memory()'s error, after which none is left. For one thread at a time.
  bool lock_next(Device& device);

  // The first bytes of a range: all in one locked chunk, or all in no locked one. A device's copy must not cross chunks.
  struct Extent {
    std::size_t bytes = 0;
    bool is_locked = false;
  };
  // Takes any range of the process's memory, of 1 byte or more. Thread-safe.
  Extent extent(const void* begin, std::size_t bytes) const;
  // Returns the bytes that are locked, from the memory's begin. Thread-safe.
  std::size_t locked_bytes() const { return locked_bytes_; }

 private:
  const std::shared_ptr<SharedMemory> memory_;  // before the chunks, which must be unlocked first
  const std::size_t chunk_bytes_;
  std::vector<Buffer> chunks_;
  bool failed_ = false;
  std::atomic<std::size_t> locked_bytes_{0};
};

}  // namespace pipetrain
