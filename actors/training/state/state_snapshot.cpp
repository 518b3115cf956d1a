#include "actors/training/state/state_snapshot.hpp"

#include <utility>

namespace pipetrain {

std::size_t snapshot_bytes(const std::vector<HeldState>& source) { return count_elements(source) * sizeof(float); }

StateSnapshot::StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source)
    : pieces_(source), copier_(device, std::move(source), CopyWay::direct) {
  if (pieces_.empty()) return;
  memory_ = device.allocate_host(snapshot_bytes(pieces_), rank + ": snapshot to save");
  auto* next = static_cast<float*>(memory_.data());
  for (HeldState& piece : pieces_) {
    piece.values = next;
    next += piece.elements.size();
  }
}

void StateSnapshot::take() { copier_.copy(static_cast<float*>(memory_.data()), {}); }

}  // namespace pipetrain
