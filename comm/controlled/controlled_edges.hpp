// The open edges of a transport whose deliveries and credits are messages of the control plane, and the checks of what other
// processes say of them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/edge_messages.hpp"
#include "comm/transport.hpp"

namespace pipetrain {

// An edge that this process sends on.
struct ControlledSender {
  EdgeSender edge;
  EdgeOffer offer;
  std::vector<SlotHandle> mirrors;  // made when the edge is connected
};

struct ControlledEdges {
  ControlledEdges(std::vector<EdgeReceiver> receiving, std::vector<EdgeSender> sending);

  std::map<EdgeId, EdgeReceiver> receivers;
  std::map<EdgeId, ControlledSender> senders;
  std::vector<Bytes> introductions;  // by process

  std::set<int> neighbours() const;  // the processes at the other ends
  // Returns what this process tells all others: its introduction, and of each edge that it receives from, `extra` of it.
  Bytes offers(const Bytes& introduction, const std::function<Bytes(const EdgeReceiver&)>& extra) const;
  // Takes what all processes told. Throws Error(peer_lost) for invalid bytes, Error(internal) where the ends do not fit.
  void take_offers(const std::vector<Bytes>& all, const ControlPlane& control);

  // These check a message of process `from`, and throw Error(peer_lost) for an invalid one. The first also gives the slot the
  // shapes and the note of the delivery.
  EdgeReceiver& accept(const Delivery& delivery, int from);
  ControlledSender& accept(const SlotCredit& credit, int from);
};

}  // namespace pipetrain
