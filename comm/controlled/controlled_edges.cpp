#include "comm/controlled/controlled_edges.hpp"

#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// A process's introduction, and the descriptions of the edges that it receives from.
using Offers = std::pair<Bytes, std::vector<EdgeOffer>>;

void check_delivered_lanes(const Delivery& delivery, const Slot& slot) {
  if (delivery.lanes.size() != slot.lanes.size()) WireReader::refuse("another number of lanes than the slot");
  for (std::size_t i = 0; i < slot.lanes.size(); ++i) {
    const Lane& lane = slot.lanes[i];
    if (static_cast<std::size_t>(delivery.lanes[i].shape.elements()) * size_of(lane.tensor.dtype) > lane.capacity) {
      WireReader::refuse("a shape that the slot has no room for");
    }
  }
}

}  // namespace

ControlledEdges::ControlledEdges(std::vector<EdgeReceiver> receiving, std::vector<EdgeSender> sending) {
  for (EdgeReceiver& receiver : receiving) {
    const EdgeId id = receiver.edge;
    receivers.emplace(id, std::move(receiver));
  }
  for (EdgeSender& sender : sending) {
    const EdgeId id = sender.edge;
    senders[id].edge = std::move(sender);
  }
}

std::set<int> ControlledEdges::neighbours() const {
  std::set<int> processes;
  for (const auto& [id, receiver] : receivers) processes.insert(receiver.from);
  for (const auto& [id, sender] : senders) processes.insert(sender.edge.to);
  return processes;
}

Bytes ControlledEdges::offers(const Bytes& introduction, const std::function<Bytes(const EdgeReceiver&)>& extra) const {
  Offers mine{introduction, {}};
  for (const auto& [id, receiver] : receivers) mine.second.emplace_back(describe(receiver)).extra = extra(receiver);
  return to_bytes(mine);
}

void ControlledEdges::take_offers(const std::vector<Bytes>& all, const ControlPlane& control) {
  for (std::size_t process = 0; process < all.size(); ++process) {
    auto [introduction, offers] = read_message<Offers>(all[process]);
    introductions.push_back(std::move(introduction));
    for (EdgeOffer& offered : offers) {
      const auto sender = senders.find(offered.edge);
      if (sender == senders.end() || sender->second.edge.to != static_cast<int>(process)) continue;
      if (offered.from != control.process()) WireReader::refuse("an edge from another process");
      sender->second.offer = std::move(offered);
    }
  }
  for (const auto& [id, sender] : senders) {
    const std::string name = "edge " + std::to_string(id);
    if (sender.offer.slots.empty())
      throw Error(ErrorKind::internal, name + ": " + to_string(control.info(sender.edge.to)) + " does not receive from it");
    for (const auto& lanes : sender.offer.slots) {
      if (lanes.size() != sender.edge.devices.size())
        throw Error(ErrorKind::internal, name + " has " + std::to_string(lanes.size()) + " lanes for " +
                                             std::to_string(sender.edge.devices.size()) + " senders");
    }
  }
}

EdgeReceiver& ControlledEdges::accept(const Delivery& delivery, int from) {
  const auto found = receivers.find(delivery.edge);
  if (found == receivers.end() || found->second.from != from) WireReader::refuse("an edge that is not its own");
  EdgeReceiver& receiver = found->second;
  const auto number = static_cast<std::size_t>(delivery.slot);
  if (delivery.slot < 0 || number >= receiver.slots.size()) WireReader::refuse("a slot that is not in the edge");
  Slot& slot = *receiver.slots[number];
  check_delivered_lanes(delivery, slot);
  for (std::size_t i = 0; i < delivery.lanes.size(); ++i) slot.lanes[i].tensor.shape = delivery.lanes[i].shape;
  slot.note = delivery.note;
  return receiver;
}

ControlledSender& ControlledEdges::accept(const SlotCredit& credit, int from) {
  const auto found = senders.find(credit.edge);
  if (found == senders.end() || found->second.edge.to != from) WireReader::refuse("an edge that is not its own");
  if (credit.slot < 0 || static_cast<std::size_t>(credit.slot) >= found->second.mirrors.size())
    WireReader::refuse("a slot that is not in the edge");
  return found->second;
}

}  // namespace pipetrain
