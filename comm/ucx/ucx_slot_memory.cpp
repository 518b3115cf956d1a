#include "comm/ucx/ucx_slot_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pipetrain {
namespace {

constexpr std::size_t usual_chunk = std::size_t{64} << 20;

}  // namespace

Buffer UcxSlotMemory::allocate(Device& device, std::size_t bytes, const std::string& what) {
  if (bytes == 0) return {};
  const std::size_t size = align_up(bytes);
  const std::lock_guard lock(mutex_);
  if (!filling_ || filling_->buffer.memory.bytes() - filling_->used < size) {
    auto chunk = std::make_shared<Chunk>(Chunk{allocate_shared(device, std::max(size, usual_chunk), what)});
    if (!chunk->buffer.name) return device.allocate(bytes, what);
    std::erase_if(chunks_, [](const auto& one) { return one.expired(); });
    chunks_.push_back(chunk);
    filling_ = std::move(chunk);
  }
  void* data = static_cast<std::byte*>(filling_->buffer.memory.data()) + filling_->used;
  filling_->used += size;
  return Buffer(data, bytes, [chunk = filling_](void*) {});
}

std::optional<SharedMemoryName> UcxSlotMemory::name_of(const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& weak : chunks_) {
    const auto chunk = weak.lock();
    if (!chunk) continue;
    const SharedMemoryName& name = *chunk->buffer.name;
    if (address >= name.address && address - name.address <= name.bytes && bytes <= name.bytes - (address - name.address)) {
      return name;
    }
  }
  return std::nullopt;
}

}  // namespace pipetrain
