#include "actors/ranks/rank_lanes.hpp"

namespace pipetrain {

RankLanes::RankLanes(const MeshRank& place, std::size_t output_bytes, Stream& compute)
    : place_(place),
      compute_(compute),
      lane_(static_cast<std::size_t>(place.lane)),
      links_(place.links, LinkSetup{place.device, output_bytes, to_string(place.id)}) {}

Lane RankLanes::make(const Tensor& largest) {
  Lane lane;
  lane.tensor = largest;
  lane.rank = place_.rank;
  if (largest.elements() == 0) return lane;
  memory_.push_back(place_.slot_memory(align_up(largest.bytes()), to_string(place_.id) + ": queue"));
  lane.tensor.data = memory_.back().data();
  lane.capacity = memory_.back().bytes();
  lane.ready = place_.device->make_event();
  lane.free = place_.device->make_event();
  return lane;
}

void RankLanes::wait_for_inputs(const Launch& launch) {
  for (const SlotHandle* input : {&launch.activation, &launch.gradient, &launch.target})
    if (*input) wait_until_ready(compute_, **input, lane_);
}

RankLanes::Output RankLanes::begin_output(const Launch& launch, const Shape& shape) {
  if (!launch.output) return {};
  Lane& lane = launch.output->lanes[lane_];
  lane.tensor.shape = shape;
  Link& link = links_.to(lane);
  return {&lane, &link, link.begin(compute_, lane)};
}

void RankLanes::pass_on(const Launch& launch, const Output& output) {
  if (output.lane) output.link->send(compute_, *output.lane);
  for (const SlotHandle& slot : launch.release) mark_free(compute_, *slot, lane_);
}

}  // namespace pipetrain
