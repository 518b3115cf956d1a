// The work of the stages in one step of generation: the next positions of each sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/wire_fields.hpp"

namespace pipetrain {

struct SequenceRun {
  std::int64_t first = 0;         // the first position; 0 begins a new sequence in this place
  std::vector<std::int32_t> ids;  // empty: this step has nothing for this place
  std::int64_t length = 0;        // the positions of the whole text so far; 0: it ends with these ids
  std::int32_t adapter = 0;       // the number of its adapter from 1 on, always the same for a text; 0: none
  bool operator==(const SequenceRun&) const = default;
  static void wire_fields(auto& wire, auto& run) { wire(run.first, run.ids, run.length, run.adapter); }
};

// By place; the place is also the microbatch of the step.
using SequenceRuns = std::vector<SequenceRun>;

// The most positions of one run; a longer prompt takes several steps. The result of a prompt must not depend on the
// layout, so this limit does not either.
inline constexpr std::int64_t longest_run = 256;

// The limits that runs of a job must keep.
struct RunLimits {
  int sequences = 1;
  std::int64_t positions = 1;  // of one sequence
  std::int64_t vocabulary = 1;
  int adapters = 0;
};

// Decodes the content of a step, which every process gets: to_bytes(runs). Throws Error(peer_lost) for invalid bytes.
SequenceRuns sequence_runs(std::span<const std::byte> bytes, const RunLimits& limits);

}  // namespace pipetrain
