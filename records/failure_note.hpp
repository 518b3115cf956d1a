// A hidden file beside the metrics of a run that failed, with its cause. The metrics themselves have lines of steps only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace pipetrain {

struct FailureNote {
  std::int64_t step = 0;  // the step that was not completed
  std::string cause;      // one line
};

// Writes ".NAME.failed" beside the metrics file NAME, if that is a regular file. A note that cannot be written is left
// out, because the failure is told elsewhere too.
void write_failure_note(const std::filesystem::path& metrics, const FailureNote& note) noexcept;
void remove_failure_note(const std::filesystem::path& metrics) noexcept;
// Returns no value if there is no note, or if it cannot be read.
std::optional<FailureNote> read_failure_note(const std::filesystem::path& metrics);

}  // namespace pipetrain
