#include "actors/training/state/snapshot_memory.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace pipetrain {

// The blocks of one owner.
struct SnapshotMemory::Use {
  explicit Use(std::shared_ptr<SnapshotMemory> from) : memory(std::move(from)) {}
  ~Use() {
    const std::lock_guard lock(memory->mutex_);
    for (Block* const block : blocks)
      if (--block->users == 0) block->used = 0;
  }
  std::shared_ptr<SnapshotMemory> memory;
  std::set<Block*> blocks;
};

// Takes the next elements of a block for `use`.
float* SnapshotMemory::take(Block& block, std::size_t length, Use& use) {
  if (use.blocks.insert(&block).second) ++block.users;
  return static_cast<float*>(block.memory.data()) + std::exchange(block.used, block.used + length);
}

// New memory is made outside of the lock, because that takes long, and all ranks do it at once.
SnapshotMemory::Places SnapshotMemory::allocate(Device& device, const std::vector<std::size_t>& lengths,
                                                const std::string& what) {
  const auto use = std::make_shared<Use>(shared_from_this());
  Places places{std::vector<float*>(lengths.size()), use};
  std::vector<std::size_t> without;  // the arrays that no block has room for
  std::size_t missing = 0;           // their elements
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
        return block.kind == device.id().kind && (block.used + lengths[i]) * sizeof(float) <= block.memory.bytes();
      });
      if (found != blocks_.end()) {
        places.at[i] = take(*found, lengths[i], *use);
      } else {
        without.push_back(i);
        missing += lengths[i];
      }
    }
  }
  if (without.empty()) return places;
  Block added{device.allocate_host(missing * sizeof(float), what), device.id().kind};
  const std::lock_guard lock(mutex_);
  Block& block = blocks_.emplace_back(std::move(added));
  for (const std::size_t i : without) places.at[i] = take(block, lengths[i], *use);
  return places;
}

}  // namespace pipetrain
