#include "records/failure_note.hpp"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

fs::path note_of(const fs::path& metrics) {
  return metrics.parent_path() / fmt::format(".{}.failed", metrics.filename().string());
}

}  // namespace

void write_failure_note(const fs::path& metrics, const FailureNote& note) noexcept {
  try {
    if (fs::is_regular_file(metrics)) std::ofstream(note_of(metrics)) << note.step << ' ' << note.cause << '\n';
  } catch (const std::exception&) {
  }
}

void remove_failure_note(const fs::path& metrics) noexcept {
  try {
    std::error_code ignored;
    fs::remove(note_of(metrics), ignored);
  } catch (const std::exception&) {
  }
}

std::optional<FailureNote> read_failure_note(const fs::path& metrics) {
  std::ifstream file(note_of(metrics));
  FailureNote note;
  if (!(file >> note.step) || file.get() != ' ' || !std::getline(file, note.cause)) return std::nullopt;
  return note;
}

}  // namespace pipetrain
