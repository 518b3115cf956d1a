#include "actors/training/copies/locked_chunks.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace pipetrain {
namespace {

// Makes the pages outside of the driver's lock, and leaves what is written in them. Where the kernel does not know the
// request, locking makes them.
void make_pages(void* memory, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(memory, bytes, MADV_POPULATE_WRITE);
#endif
}

}  // namespace

LockedChunks::LockedChunks(std::shared_ptr<SharedMemory> memory, std::size_t chunk_bytes)
    : memory_(std::move(memory)), chunk_bytes_(chunk_bytes) {}

bool LockedChunks::lock_next(Device& device) {
  const std::size_t begin = locked_bytes_, bytes = std::min(chunk_bytes_, memory_->bytes() - begin);
  if (bytes == 0 || failed_) return false;
  void* const chunk = static_cast<std::byte*>(memory_->data()) + begin;
  make_pages(chunk, bytes);
  failed_ = true;
  chunks_.push_back(device.lock_host_memory(chunk, bytes));
  failed_ = false;
  locked_bytes_ = begin + bytes;
  return true;
}

LockedChunks::Extent LockedChunks::extent(const void* begin, std::size_t bytes) const {
  const auto* const memory = static_cast<const std::byte*>(memory_->data());
  const auto* const at = static_cast<const std::byte*>(begin);
  const std::size_t locked = locked_bytes_;
  if (std::less<>{}(at, memory) || !std::less<>{}(at, memory + locked)) return {bytes, false};
  const auto offset = static_cast<std::size_t>(at - memory);
  const std::size_t end = std::min(locked, (offset / chunk_bytes_ + 1) * chunk_bytes_);
  return {std::min(bytes, end - offset), true};
}

}  // namespace pipetrain
