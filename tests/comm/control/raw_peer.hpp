// A program that connects to process 0 without belonging to the run, and sends anything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/control/frame.hpp"
#include "comm/control/handshake.hpp"

namespace pipetrain::test {

// Blocking. Throws std::runtime_error if there is no connection.
class RawPeer {
 public:
  explicit RawPeer(std::uint16_t port);
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // Returns false if the other end has closed the connection.
  bool send(std::span<const std::byte> bytes);
  bool send(const control::Frame& frame);
  // Sends token and hello as process 0 expects them.
  void greet(const Rendezvous& rendezvous);
  // Returns nothing if the connection ends, or after 10 s.
  std::optional<control::Frame> receive();
  // Returns the reason that process 0 gives, or "nothing".
  std::string refusal();
  void close();
  // Closes the connection and waits until process 0 has closed it as well; returns true if it has within 10 s.
  bool hang_up();

 private:
  int socket_;
  control::FrameReader reader_{control::most_frame_bytes};
};

// Tries until somebody listens at the port, for at most 30 s.
std::unique_ptr<RawPeer> connect_when_ready(std::uint16_t port);

// Returns the frame's bytes on the wire.
Bytes bytes_of(const control::Frame& frame);

// Accepts one connection after the other and answers with these bytes; with an empty answer never. Runs on a thread of
// its own.
class FakeServer {
 public:
  FakeServer(std::uint16_t port, Bytes answer);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipetrain::test
