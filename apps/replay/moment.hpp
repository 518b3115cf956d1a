// Describes a moment of a replayed run, for people.
#pragma once

#include <string>

#include "schedules/record/replay.hpp"

namespace pipetrain {

// Returns the name of a log's stage: "stage 1", or "replica 0 part 1 stage 1" where there are several.
std::string stage_name(const schedules::RecordedRun& run, int log);
// Returns a line for each stage (what it runs, what it waits for) and for each queue (which side holds which of its slots).
std::string moment_text(const schedules::Replay& replay);

}  // namespace pipetrain
