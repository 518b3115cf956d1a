#include "comm/edge_messages.hpp"

namespace pipetrain {
namespace {

void write_edge_shape(WireWriter& out, const Shape& shape) {
  out.number(static_cast<std::uint8_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) out.number(shape[axis]);
}

Shape read_edge_shape(WireReader& in) {
  const int rank = in.number<std::uint8_t>();
  if (rank > Shape::max_rank) WireReader::refuse("a shape of too many axes");
  std::int64_t dims[Shape::max_rank] = {};
  std::int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    dims[axis] = in.number<std::int64_t>();
    if (dims[axis] < 0 || (dims[axis] > 0 && elements > (std::int64_t{1} << 48) / dims[axis])) {
      WireReader::refuse("an impossible shape");
    }
    elements *= dims[axis];
  }
  switch (rank) {
    case 0:
      return {};
    case 1:
      return {dims[0]};
    case 2:
      return {dims[0], dims[1]};
    case 3:
      return {dims[0], dims[1], dims[2]};
    default:
      return {dims[0], dims[1], dims[2], dims[3]};
  }
}

}  // namespace

void write(WireWriter& out, const Delivery& delivery) {
  out.number(delivery.edge);
  out.number(static_cast<std::int32_t>(delivery.slot));
  out.number(static_cast<std::int32_t>(delivery.microbatch));
  out.list(delivery.lanes, [&](const Delivery::LaneContent& lane) {
    write_edge_shape(out, lane.shape);
    out.number(lane.record);
  });
  out.text(delivery.note);
}

Delivery read_delivery(WireReader& in) {
  Delivery delivery;
  delivery.edge = in.number<EdgeId>();
  delivery.slot = in.number<std::int32_t>();
  delivery.microbatch = in.number<std::int32_t>();
  for (std::size_t lanes = in.count(5); lanes > 0; --lanes) {
    Delivery::LaneContent lane;
    lane.shape = read_edge_shape(in);
    lane.record = in.number<std::uint32_t>();
    delivery.lanes.push_back(lane);
  }
  delivery.note = in.text();
  if (delivery.note.size() > most_note_bytes) WireReader::refuse("a note longer than slots have");
  return delivery;
}

void write(WireWriter& out, const SlotCredit& credit) {
  out.number(credit.edge);
  out.number(static_cast<std::int32_t>(credit.slot));
  out.list(credit.records, [&](std::uint32_t record) { out.number(record); });
}

SlotCredit read_slot_credit(WireReader& in) {
  SlotCredit credit;
  credit.edge = in.number<EdgeId>();
  credit.slot = in.number<std::int32_t>();
  for (std::size_t lanes = in.count(4); lanes > 0; --lanes) credit.records.push_back(in.number<std::uint32_t>());
  return credit;
}

void write(WireWriter& out, const EdgeOffer& offer) {
  out.number(offer.edge);
  out.number(offer.from);
  out.list(offer.slots, [&](const std::vector<EdgeOffer::LaneOffer>& lanes) {
    out.list(lanes, [&](const EdgeOffer::LaneOffer& lane) {
      write_edge_shape(out, lane.shape);
      out.number(lane.dtype);
      out.number(lane.capacity);
      out.number(lane.rank);
    });
  });
  out.bytes(offer.extra);
}

EdgeOffer read_edge_offer(WireReader& in) {
  EdgeOffer offer;
  offer.edge = in.number<EdgeId>();
  offer.from = in.number<std::int32_t>();
  offer.slots.resize(in.count(4));
  for (auto& lanes : offer.slots) {
    lanes.resize(in.count(14));
    for (EdgeOffer::LaneOffer& lane : lanes) {
      lane.shape = read_edge_shape(in);
      lane.dtype = in.choice(DType::i32);
      lane.capacity = in.number<std::uint64_t>();
      lane.rank = in.number<std::int32_t>();
    }
  }
  const auto extra = in.bytes();
  offer.extra.assign(extra.begin(), extra.end());
  return offer;
}

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
