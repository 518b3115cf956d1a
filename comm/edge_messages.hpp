// The messages between the two ends of an edge over the control plane, where the data itself takes another way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/slot.hpp"
#include "comm/transport.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {

// The slot holds this microbatch, now or when the events of its lanes have been reached.
struct Delivery {
  struct LaneContent {
    Shape shape;
    std::uint32_t record = 0;  // of the lane's `ready` event, where processes share events

    static void wire_fields(auto& wire, auto& lane) { wire(lane.shape, lane.record); }
  };
  EdgeId edge = 0;
  int slot = 0, microbatch = 0;
  std::vector<LaneContent> lanes;
  std::string note = {};  // the slot's note

  template <class Wire>
  static void wire_fields(Wire& wire, auto& delivery) {
    wire(delivery.edge, delivery.slot, delivery.microbatch, delivery.lanes, delivery.note);
    if (Wire::reads && delivery.note.size() > most_note_bytes) WireReader::refuse("a note longer than slots have");
  }
};

// The slot may be filled again, once its lanes' `free` events have been reached.
struct SlotCredit {
  EdgeId edge = 0;
  int slot = 0;
  std::vector<std::uint32_t> records;  // of the lanes' `free` events

  static void wire_fields(auto& wire, auto& credit) { wire(credit.edge, credit.slot, credit.records); }
};

// The consumer's description of an edge for its producer.
struct EdgeOffer {
  struct LaneOffer {
    Shape shape;
    DType dtype = DType::f32;
    std::uint64_t capacity = 0;
    std::int32_t rank = -1;

    static void wire_fields(auto& wire, auto& lane) {
      wire(lane.shape);
      wire.choice(lane.dtype, DType::i32);
      wire(lane.capacity, lane.rank);
    }
  };
  EdgeId edge = 0;
  std::int32_t from = 0;                      // the producer's process
  std::vector<std::vector<LaneOffer>> slots;  // lanes by slot
  Bytes extra;                                // additional data of the transport

  static void wire_fields(auto& wire, auto& offer) { wire(offer.edge, offer.from, offer.slots, offer.extra); }
};

EdgeOffer describe(const EdgeReceiver& receiver);

}  // namespace pipetrain
