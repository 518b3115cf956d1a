#include "comm/edge_messages.hpp"

namespace pipetrain {

EdgeOffer describe(const EdgeReceiver& receiver) {
  EdgeOffer offer;
  offer.edge = receiver.edge;
  offer.from = receiver.from;
  for (const SlotHandle& slot : receiver.slots) {
    auto& lanes = offer.slots.emplace_back();
    for (const Lane& lane : slot->lanes) lanes.push_back({lane.tensor.shape, lane.tensor.dtype, lane.capacity, lane.rank});
  }
  return offer;
}

}  // namespace pipetrain
