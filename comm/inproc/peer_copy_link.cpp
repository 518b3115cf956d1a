#include "comm/inproc/peer_copy_link.hpp"

#include <cassert>

namespace pipetrain {

PeerCopyLink::PeerCopyLink(const LinkSetup& setup)
    : bytes_(setup.bytes),
      memory_(setup.device->allocate(memory_bytes(setup.bytes), setup.owner + ": results on their way")),
      places_(places) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    places_[i].data = static_cast<char*>(memory_.data()) + i * align_up(bytes_);
    places_[i].written = setup.device->make_event();
    places_[i].left = setup.device->make_event();
  }
  stream_ = setup.device->make_stream("edges");
}

std::size_t PeerCopyLink::memory_bytes(std::size_t bytes) { return places * align_up(bytes); }

Tensor PeerCopyLink::begin(Stream& compute, const Lane& lane) {
  assert(lane.tensor.bytes() <= bytes_);
  const Place& place = places_[next_];
  compute.wait(*place.left);
  Tensor local = lane.tensor;
  local.data = place.data;
  return local;
}

void PeerCopyLink::send(Stream& compute, Lane& lane) {
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
