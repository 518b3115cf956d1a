// The exchange with which a membership begins: its processes introduce themselves, and all conclude the same from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/run_layout.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain::control {

// One process's part.
struct RollEntry {
  int number = 0;                       // its number in the run, which no other process ever has
  int membership = 0;                   // the last one that it has seen
  int next_number = 0;                  // that the next newcomer would have, as far as it knows
  std::string host;                     // at which the others reach it
  std::uint16_t standby = 0, door = 0;  // ports
  RunLayout layout;
  bool runs = false;  // it has built the layout, and can continue from copies of states

  static void wire_fields(auto& wire, auto& entry) {
    wire(entry.number, entry.membership, entry.next_number, entry.host, entry.standby, entry.door, entry.layout, entry.runs);
  }
};

struct Roll {
  std::vector<RollEntry> entries;  // by process of the plane
  int membership = 0, next_number = 0;
  RunLayout layout;      // the newest that one of them knows
  bool all_run = false;  // every process has built that layout

  std::vector<int> numbers() const;
};

// Every process of the plane calls it at the same time. Throws Error(peer_lost) as ControlPlane::exchange(), and for bytes
// that are no entry.
Roll call_roll(ControlPlane& plane, const RollEntry& own);

}  // namespace pipetrain::control
