// The engine's messages as bytes (core/wire.hpp), and back. Whatever the bytes are, decode() gives a message whose every number
// is one that the run has, or throws.
#pragma once

#include <cstddef>
#include <span>

#include "actors/engine/remote/messages.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// What numbers may be.
struct CodecLimits {
  MeshShape parts;  // of the mesh of stages: dp replicas, pp stages, tp parts of each
  int chunks = 1, microbatches = 1;
  int customs = 0;  // custom actions of the plan
};

Bytes encode(const RemoteMessage& message);
// Throws Error(peer_lost) for bytes that are no such message.
RemoteMessage decode(std::span<const std::byte> bytes, const CodecLimits& limits);

// Values of a state that one message carries at most.
inline constexpr std::size_t most_values_a_piece = std::size_t{1} << 20;

}  // namespace pipetrain
