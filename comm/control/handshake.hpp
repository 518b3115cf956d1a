// The payloads of frames before a run begins (core/wire_fields.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "core/error_kind.hpp"
#include "core/setting.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {
class Error;
}

namespace pipetrain::control {

// A process that wants to join.
struct Hello {
  ProcessInfo info;
  int processes = 1;
  std::string program;  // its version
  std::string job;      // Rendezvous::job
  std::vector<std::pair<std::string, std::string>> settings;

  static void wire_fields(auto& wire, auto& hello) {
    wire(hello.info, hello.processes, hello.program, hello.job, hello.settings);
  }
};

// Returns ProcessInfo::machine of this process.
std::string machine_name();
// Returns the greeting of this process.
Hello hello_of(const Rendezvous& rendezvous);

// An Error for another process to throw. The same in every version of the protocol.
struct Refusal {
  ErrorKind kind = ErrorKind::input;
  Setting setting;  // without a name: none
  std::string why;

  template <class Wire>
  static void wire_fields(Wire& wire, auto& refusal) {
    enum class OnWire : std::uint8_t { peer_lost, input, unavailable };
    auto kind = refusal.kind == ErrorKind::input         ? OnWire::input
                : refusal.kind == ErrorKind::unavailable ? OnWire::unavailable
                                                         : OnWire::peer_lost;
    wire.choice(kind, OnWire::unavailable);
    if constexpr (Wire::reads)
      refusal.kind = kind == OnWire::input         ? ErrorKind::input
                     : kind == OnWire::unavailable ? ErrorKind::unavailable
                                                   : ErrorKind::peer_lost;
    wire(refusal.setting.name, refusal.setting.value, refusal.why);
  }
};

Error to_error(const Refusal& refusal);

// The payload of `lost`.
struct Loss {
  int process = 0;
  std::string why;

  static void wire_fields(auto& wire, auto& loss) { wire(loss.process, loss.why); }
};

}  // namespace pipetrain::control
