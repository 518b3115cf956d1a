// The page of --report of a run whose process 0 could not write its end, because it was killed.
#pragma once

#include <cstdint>
#include <filesystem>

#include "apps/launch/launch_cause.hpp"

namespace pipetrain {

// Writes the cause into the page where it says that the run goes on. Leaves alone what was written before `since` (seconds
// since 1970), what another run holds by now, and streams. What cannot be written is told in a note.
void end_report_page(const std::filesystem::path& report, std::int64_t since, const LaunchCause& cause);

}  // namespace pipetrain
