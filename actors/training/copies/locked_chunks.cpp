#include "actors/training/copies/locked_chunks.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/loading_threads.hpp"
#include "core/threads/on_threads.hpp"

namespace pipetrain {
namespace {

constexpr unsigned most_page_threads = 8;

// Makes the pages outside of the driver's lock, and leaves what is written in them. A thread makes some 1.4 GB/s. Where the
// kernel does not know the request, locking makes them.
void make_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes, [[maybe_unused]] unsigned threads) {
#ifdef MADV_POPULATE_WRITE
  constexpr std::size_t share_bytes = std::size_t{4} << 20;
  on_threads(threads, (bytes + share_bytes - 1) / share_bytes, [&](std::size_t i) {
    const std::size_t begin = i * share_bytes;
    ::madvise(static_cast<std::byte*>(memory) + begin, std::min(share_bytes, bytes - begin), MADV_POPULATE_WRITE);
  });
#endif
}

}  // namespace

LockedChunks::LockedChunks(std::shared_ptr<SharedMemory> memory, std::size_t chunk_bytes)
    : memory_(std::move(memory)), chunk_bytes_(chunk_bytes) {}

bool LockedChunks::lock_next(Device& device) {
  const std::size_t begin = locked_bytes_, bytes = std::min(chunk_bytes_, memory_->bytes() - begin);
  if (bytes == 0 || failed_) return false;
  void* const chunk = static_cast<std::byte*>(memory_->data()) + begin;
  make_pages(chunk, bytes, std::min(most_page_threads, loading_threads(device)));
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
