// What the stages compute in one step of generating: of each sequence its next positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/wire.hpp"

namespace pipetrain {

struct SequenceRun {
  std::int64_t first = 0;         // of the positions; 0 begins a new sequence in this place
  std::vector<std::int32_t> ids;  // none: this step has nothing for this place
  bool operator==(const SequenceRun&) const = default;
};

// By place, which is the microbatch of the step.
using SequenceRuns = std::vector<SequenceRun>;

// The most positions of one run: a longer prompt takes several steps. What a prompt gives must not depend on the layout, so
// neither does this.
inline constexpr std::int64_t longest_run = 256;

// What runs of a job cannot be beyond.
struct RunLimits {
  int sequences = 1;
  std::int64_t positions = 1;  // of one sequence
  std::int64_t vocabulary = 1;
};

// As the content of a step, in which every process gets them, and back. Throws Error(peer_lost) for bytes that cannot be these.
Bytes to_bytes(const SequenceRuns& runs);
SequenceRuns sequence_runs(std::span<const std::byte> bytes, const RunLimits& limits);

}  // namespace pipetrain
