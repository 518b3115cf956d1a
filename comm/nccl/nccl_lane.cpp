#include "comm/nccl/nccl_lane.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

// Multiprocessors that a transfer takes: fewer only take them for longer.
constexpr int edge_blocks = 8;

}  // namespace

NcclLane::NcclLane(NcclComms& comms, const Bytes& name, End end, Device& device, int peer)
    : end_(end),
      comm_(comms.join({name, end == End::producer ? 0 : 1, 2, device.id().index, peer, edge_blocks})),
      stream_(device, end == End::producer ? "sends of an edge" : "receives of an edge") {}

void NcclLane::move(void* data, std::size_t bytes) {
  comm_->transfer(stream_, [&] { end_ == End::producer ? comm_->send(data, bytes, 1) : comm_->receive(data, bytes, 0); });
}

void NcclLane::rehearse(const Lane& lane) { move(lane.tensor.data, std::min<std::size_t>(lane.capacity, 1024)); }

void NcclLane::transfer(const Lane& lane) {
  const auto& before = end_ == End::producer ? lane.ready : lane.free;
  const auto& after = end_ == End::producer ? lane.free : lane.ready;
  if (before) stream_.wait(*before);
  move(lane.tensor.data, lane.tensor.bytes());
  stream_.record(*after);
}

bool NcclLane::idle() const { return cudaStreamQuery(stream_.native()) != cudaErrorNotReady; }

}  // namespace pipetrain
