// `pipetrain replay` repeats a recorded run in virtual time.
#pragma once

#include "apps/replay/replay_options.hpp"

namespace pipetrain {

// Replays, prints to stdout, and writes the requested files whole or not at all. Returns the exit status: 0, or 1 if
// the record and the decisions of its stages disagree. Throws Error(input) for a file that is not a whole record.
int run_replay(const ReplayOptions& options);

}  // namespace pipetrain
