#include "actors/training/state/state_snapshot.hpp"

#include <utility>

namespace pipetrain {

std::size_t snapshot_bytes(const std::vector<HeldState>& source) {
  std::size_t elements = 0;
  for (const HeldState& piece : source) elements += piece.elements.size();
  return elements * sizeof(float);
}

StateSnapshot::StateSnapshot(Device& device, const std::string& rank, std::vector<HeldState> source)
    : source_(std::move(source)), pieces_(source_), stream_(device.make_stream("snapshot")), copied_(device.make_event()) {
  if (source_.empty()) return;
  memory_ = device.allocate_host(snapshot_bytes(source_), rank + ": snapshot to save");
  auto* next = static_cast<float*>(memory_.data());
  for (HeldState& piece : pieces_) {
    piece.values = next;
    next += piece.elements.size();
  }
}

StateSnapshot::~StateSnapshot() {
  try {
    stream_->synchronize();
  } catch (...) {  // wait() has reported it
  }
}

void StateSnapshot::take() {
  for (std::size_t i = 0; i < source_.size(); ++i) {
    auto* const target = const_cast<float*>(pieces_[i].values);
    if (source_[i].read) {
      source_[i].read(target);
    } else {
      stream_->copy(target, source_[i].values, source_[i].elements.size() * sizeof(float));
    }
  }
  stream_->record(*copied_);
  taken_ = true;
}

void StateSnapshot::protect(Stream& stream) {
  if (taken_) stream.wait(*copied_);
  taken_ = false;
}

void StateSnapshot::wait() {
  copied_->synchronize();
  if (const auto cause = stream_->failure()) std::rethrow_exception(cause);
}

}  // namespace pipetrain
