#include "comm/ucx/ucx_header.hpp"

#include "comm/slot.hpp"
#include "core/error.hpp"

namespace pipetrain {

std::optional<std::size_t> bytes_of(const Shape& shape, DType dtype) noexcept {
  std::size_t bytes = size_of(dtype);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(shape[axis]), &bytes)) return std::nullopt;
  }
  return bytes;
}

void write_shape(WireWriter& to, const Shape& shape) {
  to.number(static_cast<std::uint8_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) to.number(shape[axis]);
}

Shape read_shape(WireReader& from) {
  const int rank = from.number<std::uint8_t>();
  std::int64_t sizes[Shape::max_rank] = {};
  if (rank > Shape::max_rank) WireReader::refuse("a shape of too many axes");
  for (int axis = 0; axis < rank; ++axis) sizes[axis] = from.number<std::int64_t>();
  Shape shape;
  switch (rank) {
    case 1:
      shape = {sizes[0]};
      break;
    case 2:
      shape = {sizes[0], sizes[1]};
      break;
    case 3:
      shape = {sizes[0], sizes[1], sizes[2]};
      break;
    case 4:
      shape = {sizes[0], sizes[1], sizes[2], sizes[3]};
      break;
    default:
      break;
  }
  if (!bytes_of(shape, DType::f64)) WireReader::refuse("a shape that no memory holds");
  return shape;
}

void UcxDataHeader::write(WireWriter& to) const {
  to.number(generation);
  to.number(edge);
  to.number(slot);
  to.number(filling);
  to.number(microbatch);
  to.number(lane);
  to.number(dtype);
  write_shape(to, shape);
  to.flag(in_place);
  to.text(note);
}

std::optional<UcxDataHeader> UcxDataHeader::read(std::span<const std::byte> from) noexcept try {
  WireReader reader(from);
  UcxDataHeader header;
  header.generation = reader.number<std::uint32_t>();
  header.edge = reader.number<std::uint32_t>();
  header.slot = reader.number<std::uint32_t>();
  header.filling = reader.number<std::uint32_t>();
  header.microbatch = reader.number<std::int32_t>();
  header.lane = reader.number<std::uint32_t>();
  header.dtype = reader.choice(DType::i32);
  header.shape = read_shape(reader);
  header.in_place = reader.flag();
  header.note = reader.text();
  reader.end();
  if (header.microbatch < 0 || header.note.size() > most_note_bytes) return std::nullopt;
  return header;
} catch (const Error&) {
  return std::nullopt;
}

void UcxCreditHeader::write(WireWriter& to) const {
  to.number(generation);
  to.number(edge);
  to.number(slot);
}

std::optional<UcxCreditHeader> UcxCreditHeader::read(std::span<const std::byte> from) noexcept try {
  WireReader reader(from);
  UcxCreditHeader header;
  header.generation = reader.number<std::uint32_t>();
  header.edge = reader.number<std::uint32_t>();
  header.slot = reader.number<std::uint32_t>();
  reader.end();
  return header;
} catch (const Error&) {
  return std::nullopt;
}

void UcxGroupHeader::write(WireWriter& to_bytes) const {
  to_bytes.number(group);
  to_bytes.number(from);
  to_bytes.number(to);
  to_bytes.number(call);
  to_bytes.number(phase);
  to_bytes.number(piece);
}

std::optional<UcxGroupHeader> UcxGroupHeader::read(std::span<const std::byte> from_bytes) noexcept try {
  WireReader reader(from_bytes);
  UcxGroupHeader header;
  header.group = reader.number<std::uint32_t>();
  header.from = reader.number<std::uint32_t>();
  header.to = reader.number<std::uint32_t>();
  header.call = reader.number<std::uint64_t>();
  header.phase = reader.choice(Phase::gather);
  header.piece = reader.number<std::uint32_t>();
  reader.end();
  return header;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace pipetrain
