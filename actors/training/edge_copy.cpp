#include "actors/training/edge_copy.hpp"

#include <cassert>

namespace pipetrain {

EdgeCopy::EdgeCopy(Device& device, std::size_t bytes, const std::string& name, const std::string& owner)
    : bytes_(bytes), memory_(device.allocate(memory_bytes(bytes), owner + ": results on their way")), places_(places) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].data = static_cast<char*>(memory_.data()) + i * align_up(bytes);
    places_[i].written = device.make_event();
    places_[i].left = device.make_event();
  }
  stream_ = device.make_stream(name);
}

std::size_t EdgeCopy::memory_bytes(std::size_t bytes) { return places * align_up(bytes); }

Tensor EdgeCopy::begin(Stream& compute, const Lane& lane) {
  assert(lane.tensor.bytes() <= bytes_);
  const Place& place = places_[next_];
  compute.wait(*place.left);
  Tensor local = lane.tensor;
  local.data = place.data;
  return local;
}

void EdgeCopy::send(Stream& compute, Lane& lane) {
  Place& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  compute.record(*place.written);
  stream_->wait(*place.written);
  if (lane.free) stream_->wait(*lane.free);
  stream_->copy(lane.tensor.data, place.data, lane.tensor.bytes());
  stream_->record(*place.left);
  if (lane.ready) stream_->record(*lane.ready);
}

}  // namespace pipetrain
