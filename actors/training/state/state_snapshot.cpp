#include "actors/training/state/state_snapshot.hpp"

#include <utility>

namespace pipetrain {

StateSnapshot::StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source, SnapshotMemory& memory)
    : pieces_(source), copier_(device, std::move(source), CopyWay::direct) {
  std::vector<std::size_t> lengths;
  for (const HeldState& piece : pieces_) lengths.push_back(piece.elements.size());
  places_ = memory.allocate(device, lengths, rank + ": snapshot to save");
  for (std::size_t i = 0; i < pieces_.size(); ++i) pieces_[i].values = places_.at[i];
}

void StateSnapshot::take() { copier_.copy(places_.at, {}); }

}  // namespace pipetrain
