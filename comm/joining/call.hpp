// The messages between a newcomer to an elastic run and the door of its process 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/wire_fields.hpp"

namespace pipetrain::control {

// The address at which a newcomer gathers with the members, and its number among them.
struct Call {
  int number = 0;
  int leader = 0;  // the number of the process that gathers the others
  std::string host;
  std::uint16_t port = 0;
  std::string job;  // Rendezvous::job of the members

  static void wire_fields(auto& wire, auto& call) { wire(call.number, call.leader, call.host, call.port, call.job); }
};

Call read_call(std::span<const std::byte> payload);

// Values by name, which must be equal in all processes.
using JobContents = std::vector<std::pair<std::string, std::string>>;

}  // namespace pipetrain::control
