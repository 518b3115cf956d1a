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

namespace {

template <class Header>
std::optional<Header> read_header(std::span<const std::byte> from) noexcept try {
  return read_message<Header>(from);
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

std::optional<UcxDataHeader> UcxDataHeader::read(std::span<const std::byte> from) noexcept {
  auto header = read_header<UcxDataHeader>(from);
  if (header && (header->microbatch < 0 || header->note.size() > most_note_bytes)) return std::nullopt;
  return header;
}

std::optional<UcxCreditHeader> UcxCreditHeader::read(std::span<const std::byte> from) noexcept {
  return read_header<UcxCreditHeader>(from);
}

std::optional<UcxReadyHeader> UcxReadyHeader::read(std::span<const std::byte> from) noexcept {
  return read_header<UcxReadyHeader>(from);
}

std::optional<UcxGroupHeader> UcxGroupHeader::read(std::span<const std::byte> from_bytes) noexcept {
  return read_header<UcxGroupHeader>(from_bytes);
}

}  // namespace pipetrain
