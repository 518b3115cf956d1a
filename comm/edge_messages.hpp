// The messages between the two ends of an edge over the control plane, where the data itself takes another way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/slot.hpp"
#include "comm/transport.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// The slot holds this microbatch, now or when the events of its lanes have been reached.
struct Delivery {
  struct LaneContent {
    Shape shape;
    std::uint32_t record = 0;  // of the lane's `ready` event, where processes share events
  };
  EdgeId edge = 0;
  int slot = 0, microbatch = 0;
  std::vector<LaneContent> lanes;
  std::string note = {};  // the slot's note
};

// The slot may be filled again, once its lanes' `free` events have been reached.
struct SlotCredit {
  EdgeId edge = 0;
  int slot = 0;
  std::vector<std::uint32_t> records;  // of the lanes' `free` events
};

// The consumer's description of an edge for its producer.
struct EdgeOffer {
  struct LaneOffer {
    Shape shape;
    DType dtype = DType::f32;
    std::uint64_t capacity = 0;
    std::int32_t rank = -1;
  };
  EdgeId edge = 0;
  std::int32_t from = 0;                      // the producer's process
  std::vector<std::vector<LaneOffer>> slots;  // lanes by slot
  Bytes extra;                                // additional data of the transport
};

void write(WireWriter& out, const Delivery& delivery);
void write(WireWriter& out, const SlotCredit& credit);
void write(WireWriter& out, const EdgeOffer& offer);
// Both throw Error(peer_lost) for invalid bytes.
Delivery read_delivery(WireReader& in);
SlotCredit read_slot_credit(WireReader& in);
EdgeOffer read_edge_offer(WireReader& in);

EdgeOffer describe(const EdgeReceiver& receiver);

}  // namespace pipetrain
