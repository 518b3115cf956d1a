// The layout of a run that changes it, as all its processes know it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/wire.hpp"

namespace pipetrain {

struct RunLayout {
  int changes = 0;   // since the run began
  std::string text;  // what the owner of the processes has given with the last change; empty at first
};

Bytes to_bytes(const RunLayout& layout);
// Throws Error(peer_lost) for bytes that are no layout.
RunLayout read_run_layout(std::span<const std::byte> bytes);

}  // namespace pipetrain
