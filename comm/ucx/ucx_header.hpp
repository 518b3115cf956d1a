// The headers of messages between processes, after the run's key: the edge or group and the place that a message fills
// or frees. A received header is accepted only when all of it is possible.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {

// Returns the shape's bytes, or no value where a size is negative or their product overflows.
std::optional<std::size_t> bytes_of(const Shape& shape, DType dtype) noexcept;

// Identifies a message of its edges: `filling` counts the contents of a slot since the edges were opened, over all
// steps, and a slot only takes its next contents. So messages of other steps and repeated ones are dropped. A step's
// number would not suffice: a slot that is filled several times in a step could be filled with old contents.
struct UcxDataHeader {
  std::uint32_t generation = 0;  // of the edges: those opened first have 1
  std::uint32_t edge = 0;
  std::uint32_t slot = 0;
  std::uint32_t filling = 0;  // how often the slot was filled, including this time
  std::int32_t microbatch = 0;
  std::uint32_t lane = 0;
  DType dtype = DType::f32;
  Shape shape;
  bool in_place = false;  // the sender has written the slot's own memory, and the message has no data
  std::string note{};     // of the slot; with its first lane

  static void wire_fields(auto& wire, auto& header) {
    wire(header.generation, header.edge, header.slot, header.filling, header.microbatch, header.lane);
    wire.choice(header.dtype, DType::i32);
    wire(header.shape, header.in_place, header.note);
  }
  // Returns no value for bytes that are no such header.
  static std::optional<UcxDataHeader> read(std::span<const std::byte> from) noexcept;
};

struct UcxCreditHeader {
  std::uint32_t generation = 0;
  std::uint32_t edge = 0;
  std::uint32_t slot = 0;

  static void wire_fields(auto& wire, auto& header) { wire(header.generation, header.edge, header.slot); }
  static std::optional<UcxCreditHeader> read(std::span<const std::byte> from) noexcept;
};

// A process takes the messages of this group.
struct UcxReadyHeader {
  std::uint32_t group = 0;
  std::int32_t process = -1;

  static void wire_fields(auto& wire, auto& header) { wire(header.group, header.process); }
  static std::optional<UcxReadyHeader> read(std::span<const std::byte> from) noexcept;
};

// One member of a group sends another one a piece of a call's data.
struct UcxGroupHeader {
  std::uint32_t group = 0;
  std::uint32_t from = 0, to = 0;  // members
  std::uint64_t call = 0;          // the members' calls, counted from 1
  enum class Phase : std::uint8_t { reduce, gather } phase = Phase::reduce;
  std::uint32_t piece = 0;

  auto operator<=>(const UcxGroupHeader&) const = default;
  static void wire_fields(auto& wire, auto& header) {
    wire(header.group, header.from, header.to, header.call);
    wire.choice(header.phase, Phase::gather);
    wire(header.piece);
  }
  static std::optional<UcxGroupHeader> read(std::span<const std::byte> from_bytes) noexcept;
};

}  // namespace pipetrain
