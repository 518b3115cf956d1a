// Encodes the engine's messages as bytes (core/wire.hpp) and decodes them. For arbitrary bytes, decode() returns a
// message all of whose numbers exist in the run, or throws.
#pragma once

#include <cstddef>
#include <span>

#include "actors/engine/remote/messages.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// The ranges of the numbers in messages.
struct CodecLimits {
  MeshShape parts;  // the mesh of stages
  int chunks = 1, microbatches = 1;
  int customs = 0;  // number of custom actions in the plan
};

Bytes encode(const RemoteMessage& message);
// Throws Error(peer_lost) for bytes that are no such message.
RemoteMessage decode(std::span<const std::byte> bytes, const CodecLimits& limits);

// The most values of a state that one message carries.
inline constexpr std::size_t most_values_a_piece = std::size_t{1} << 20;

}  // namespace pipetrain
