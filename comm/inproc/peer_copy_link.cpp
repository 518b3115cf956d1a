#include "comm/inproc/peer_copy_link.hpp"

#include <cassert>

namespace pipetrain {

PeerCopyLink::PeerCopyLink(const LinkSetup& setup)
    : bytes_(setup.bytes),
      memory_(setup.device->allocate(memory_bytes(setup.bytes), setup.owner + ": results in flight")),
      buffers_(buffers) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].data = static_cast<char*>(memory_.data()) + i * align_up(bytes_);
    buffers_[i].written = setup.device->make_event();
    buffers_[i].left = setup.device->make_event();
  }
  stream_ = setup.device->make_stream("edges");
}

std::size_t PeerCopyLink::memory_bytes(std::size_t bytes) { return buffers * align_up(bytes); }

Tensor PeerCopyLink::begin(Stream& compute, const Lane& lane) {
  assert(lane.tensor.bytes() <= bytes_);
  const SendBuffer& buffer = buffers_[next_];
  compute.wait(*buffer.left);
  Tensor local = lane.tensor;
  local.data = buffer.data;
  return local;
}

void PeerCopyLink::send(Stream& compute, Lane& lane) {
  SendBuffer& buffer = buffers_[next_];
  next_ = (next_ + 1) % buffers_.size();
  compute.record(*buffer.written);
  stream_->wait(*buffer.written);
  if (lane.free) stream_->wait(*lane.free);
  stream_->copy(lane.tensor.data, buffer.data, lane.tensor.bytes());
  stream_->record(*buffer.left);
  if (lane.ready) stream_->record(*lane.ready);
}

}  // namespace pipetrain
