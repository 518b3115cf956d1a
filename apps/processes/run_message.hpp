// The messages between the processes of a run that concern the run as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/wire_fields.hpp"

namespace pipetrain {

struct RunMessage {
  enum class Kind : std::uint8_t {
    stop,        // number: the signal; to process 0, which sends it on to all
    asks_leave,  // to process 0: the sender wants to hand over its ranks and end
    leaves,      // to all: this process (its first number) ends on purpose
    may_leave,   // to a process that has asked: its states are safe, so it may end
    relayout,    // to all: the run is about to end in this layout, and goes on in its number-th other one, which the text gives
    last = relayout,
  };
  Kind kind = Kind::stop;
  std::int32_t number = 0;
  std::string text = {};

  static void wire_fields(auto& wire, auto& message) {
    wire.choice(message.kind, Kind::last);
    wire(message.number, message.text);
  }
};

// Returns no value for bytes that are no such message.
std::optional<RunMessage> read_run_message(std::span<const std::byte> bytes);

}  // namespace pipetrain
