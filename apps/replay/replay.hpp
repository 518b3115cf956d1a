// `pipetrain replay`: a recorded run once more, in virtual time.
#pragma once

#include "apps/replay/replay_options.hpp"

namespace pipetrain {

// Replays, prints to stdout, and writes the files asked for whole or not at all. Returns the exit status: 0, or 1 where the
// record and what its stages decide disagree. Throws Error(input) for a file that is no whole record.
int run_replay(const ReplayOptions& options);

}  // namespace pipetrain
