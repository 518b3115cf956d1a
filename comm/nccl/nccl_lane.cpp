#include "comm/nccl/nccl_lane.hpp"

#include <algorithm>
#include <exception>

namespace pipetrain {
namespace {

// The multiprocessors of a transfer: with fewer, it only occupies them for longer.
constexpr int edge_blocks = 8;

}  // namespace

NcclLane::NcclLane(NcclComms& comms, const Bytes& name, End end, Device& device, int peer)
    : end_(end),
      comm_(comms.join({name, end == End::producer ? 0 : 1, 2, device.id().index, peer, edge_blocks})),
      stream_(device, end == End::producer ? "sends of an edge" : "receives of an edge") {}

void NcclLane::use_puts(const std::vector<Lane>& slots) {
  try {
    for (const Lane& lane : slots) windows_.push_back(comm_->make_window(lane.tensor.data, lane.capacity));
  } catch (...) {
    stream_.fail(std::current_exception());
  }
}

void NcclLane::enqueue(void* data, std::size_t bytes, int slot) {
  const bool sends = end_ == End::producer;
  if (windows_.empty()) return sends ? comm_->send(data, bytes, 1) : comm_->receive(data, bytes, 0);
  if (!sends) return comm_->wait_for_put(0);
  comm_->put(data, bytes, 1, windows_[static_cast<std::size_t>(slot)]);
}

void NcclLane::move(void* data, std::size_t bytes, int slot) {
  comm_->transfer(stream_, [&] { enqueue(data, bytes, slot); });
}

void NcclLane::rehearse(const Lane& lane) { move(lane.tensor.data, std::min<std::size_t>(lane.capacity, 1024), 0); }

void NcclLane::transfer(const Lane& lane, int slot) {
  const auto& before = end_ == End::producer ? lane.ready : lane.free;
  const auto& after = end_ == End::producer ? lane.free : lane.ready;
  if (before) stream_.wait(*before);
  move(lane.tensor.data, lane.tensor.bytes(), slot);
  stream_.record(*after);
}

bool NcclLane::idle() const { return cudaStreamQuery(stream_.native()) != cudaErrorNotReady; }

}  // namespace pipetrain
