// Completes the --report page of a run whose process 0 was killed before it could write the end.
#pragma once

#include <cstdint>
#include <filesystem>

#include "apps/launch/launch_cause.hpp"

namespace pipetrain {

// Writes the cause into the page if it says that the run goes on. Leaves a page alone that was written before `since` (seconds
// since 1970), that another run has taken over, or that is a stream. If the page cannot be written, prints a note.
void end_report_page(const std::filesystem::path& report, std::int64_t since, const LaunchCause& cause);

}  // namespace pipetrain
