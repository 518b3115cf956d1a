#include "apps/train/metrics_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <vector>

namespace pipetrain {

namespace {

// Enough of a line to find its step; no more is kept of foreign lines, however long they are.
constexpr std::size_t longest_begin = 64;

// Returns the end of the complete lines of steps up to `last`; -1 if the file cannot be read.
off_t end_of_steps(int fd, std::int64_t last) {
  std::vector<char> buffer(1 << 16);
  std::string line;
  off_t end = 0;
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? -1 : end;
    for (ssize_t i = 0; i < got; ++i) {
      const char c = buffer[static_cast<std::size_t>(i)];
      if (c != '\n') {
        if (line.size() < longest_begin) line += c;
        continue;
      }
      if (step_of_json_line(line).value_or(last) > last) return end;
      end = at + i + 1;
      line.clear();
    }
    at += got;
  }
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t steps_done)
    : path_(path),
      file_("metrics", std::move(path),
            steps_done > 0 ? [=](int fd) { return end_of_steps(fd, steps_done); } : GrowingFile::KeptEnd()) {}

void MetricsFile::begin() {
  file_.begin();
  remove_failure_note(path_);
}

}  // namespace pipetrain
