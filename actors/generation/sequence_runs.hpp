// What the stages compute in one step of generating: of each sequence its next positions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace pipetrain {

struct SequenceRun {
  std::int64_t first = 0;         // of the positions; 0 begins a new sequence in this place
  std::vector<std::int32_t> ids;  // none: this step has nothing for this place
};

// By place, which is the microbatch of the step. Written between steps by whoever runs them, read by all stages during a step.
using SequenceRuns = std::vector<SequenceRun>;
using SharedRuns = std::shared_ptr<const SequenceRuns>;

// The most positions of one run: a longer prompt takes several steps. What a prompt gives must not depend on the layout, so
// neither does this.
inline constexpr std::int64_t longest_run = 256;

}  // namespace pipetrain
