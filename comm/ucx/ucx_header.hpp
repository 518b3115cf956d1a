// What begins the messages between processes, behind the run's key: which place of which edge or group they fill or free. A
// header from outside is only taken when all of it can be so.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// The shape's bytes, or nothing where a size is negative or their product does not fit.
std::optional<std::size_t> bytes_of(const Shape& shape, DType dtype) noexcept;

// Tells a message from every other one of its edges: `filling` counts the slot's contents from the edges' opening, over all
// steps, and a slot takes its next content only. So what belongs to another step, or came before in this one, is dropped; a
// step's number would let a slot that is filled several times in a step be filled again with what is over.
struct UcxDataHeader {
  std::uint32_t generation = 0;  // of the edges: those opened first have 1
  std::uint32_t edge = 0;
  std::uint32_t slot = 0;
  std::uint32_t filling = 0;  // how often the slot was filled, with this time
  std::int32_t microbatch = 0;
  std::uint32_t lane = 0;
  DType dtype = DType::f32;
  Shape shape;
  bool in_place = false;  // the sender has written the slot's own memory, and no data come with this
  std::string note{};     // of the slot; with its first lane

  void write(WireWriter& to) const;
  // Nothing for bytes that are no such header.
  static std::optional<UcxDataHeader> read(std::span<const std::byte> from) noexcept;
};

struct UcxCreditHeader {
  std::uint32_t generation = 0;
  std::uint32_t edge = 0;
  std::uint32_t slot = 0;

  void write(WireWriter& to) const;
  static std::optional<UcxCreditHeader> read(std::span<const std::byte> from) noexcept;
};

// One member of a group sends another one a piece of what a call moves.
struct UcxGroupHeader {
  std::uint32_t group = 0;
  std::uint32_t from = 0, to = 0;  // members
  std::uint64_t call = 0;          // the members' calls, counted from 1
  enum class Phase : std::uint8_t { reduce, gather } phase = Phase::reduce;
  std::uint32_t piece = 0;

  auto operator<=>(const UcxGroupHeader&) const = default;
  void write(WireWriter& to_bytes) const;
  static std::optional<UcxGroupHeader> read(std::span<const std::byte> from_bytes) noexcept;
};

void write_shape(WireWriter& to, const Shape& shape);
// Throws Error(peer_lost) for a shape that cannot be.
Shape read_shape(WireReader& from);

}  // namespace pipetrain
