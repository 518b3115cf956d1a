// The frames of a control connection: a header and a payload. Header, 16 bytes, little-endian: magic (4), version (2),
// kind (1), channel (1), from (2), to (2), length of the payload (4). The header and the payloads of `token` and
// `refused` are the same in every version, so that programs of different versions can report that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "comm/control_plane.hpp"
#include "core/wire.hpp"

namespace pipetrain::control {

enum class FrameKind : std::uint8_t {
  token,      // the first frame to process 0: the run's token, unencoded
  hello,      // the second: the joining process and its settings
  refused,    // process 0's answer, or its reason for giving up the rendezvous
  accepted,   // or this one: the joining process now waits for the others
  ping,       // asks for the clock, before the run begins
  pong,       // the answer
  welcome,    // all have joined: the list of processes
  heartbeat,  // carries no data
  message,    // for a channel's handler
  exchange,   // a process's part of a set-up exchange, for all others
  lost,       // from process 0: a process is gone
  left,       // a process ends on purpose
  ready,      // a newcomer may become a member: the contents of its job
  called,     // process 0's answer: where the members gather, and the newcomer's number
  last = called,
};

inline constexpr std::uint16_t wire_version = 4;
inline constexpr std::size_t header_bytes = 16;
inline constexpr std::size_t most_token_bytes = 4096;
inline constexpr std::size_t most_hello_bytes = std::size_t{1} << 20;
inline constexpr std::size_t most_frame_bytes =
    ControlPlane::max_message_bytes + 4096;  // payload: a message and an exchange's key

struct Frame {
  FrameKind kind = FrameKind::heartbeat;
  Channel channel = Channel::engine;
  std::uint16_t from = 0, to = 0;  // processes
  std::uint16_t version = wire_version;
  Bytes payload{};
};

std::array<std::byte, header_bytes> header_of(const Frame& frame);

// Makes frames out of the bytes of a connection. Allocates a payload only once its length is known to be allowed. Not
// thread-safe.
class FrameReader {
 public:
  explicit FrameReader(std::size_t most_payload) : most_payload_(most_payload) {}

  // Valid from the next header on.
  void allow(std::size_t most_payload) { most_payload_ = most_payload; }
  void require(std::uint16_t version) { version_ = version; }

  // Returns the memory for the next bytes; never empty. After received(), call next() until it returns no value.
  std::span<std::byte> space();
  void received(std::size_t bytes);
  // Throws Error(peer_lost) for invalid bytes; the reader is unusable after that.
  std::optional<Frame> next();
  // Drops all received bytes.
  void clear();

 private:
  void begin_frame();

  std::size_t most_payload_;
  std::optional<std::uint16_t> version_;
  std::array<std::byte, 16384> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the range of the buffer that has not been taken
  std::optional<Frame> partial_;     // its header has been read
  std::size_t filled_ = 0;           // bytes of its payload
  bool direct_ = false;              // space() was the payload itself
};

}  // namespace pipetrain::control
