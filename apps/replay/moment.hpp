// A moment of a replayed run, for people.
#pragma once

#include <string>

#include "schedules/record/replay.hpp"

namespace pipetrain {

// A line for each stage (what it runs, what it waits for) and for each queue (who holds which of its slots).
std::string moment_text(const schedules::Replay& replay);

}  // namespace pipetrain
