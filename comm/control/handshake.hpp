// The payloads of frames before a run begins. Readers throw Error(peer_lost) for invalid bytes.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "core/error_kind.hpp"
#include "core/setting.hpp"
#include "core/wire.hpp"

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
};

// Returns the greeting of this process.
Hello hello_of(const Rendezvous& rendezvous);

Bytes to_bytes(const Hello& hello);
Hello read_hello(std::span<const std::byte> payload);

// An Error for another process to throw. The same in every version of the protocol.
struct Refusal {
  ErrorKind kind = ErrorKind::input;
  Setting setting;  // without a name: none
  std::string why;
};

Error to_error(const Refusal& refusal);
Bytes to_bytes(const Refusal& refusal);
Refusal read_refusal(std::span<const std::byte> payload);

// Encodes all processes of a run, in order.
Bytes to_bytes(const std::vector<ProcessInfo>& all);
std::vector<ProcessInfo> read_processes(std::span<const std::byte> payload);

// The payload of `lost`.
struct Loss {
  int process = 0;
  std::string why;
};

Bytes to_bytes(const Loss& loss);
Loss read_loss(std::span<const std::byte> payload);

}  // namespace pipetrain::control
