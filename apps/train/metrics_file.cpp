#include "apps/train/metrics_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace pipetrain {

namespace {

// More of a line than its step takes: of lines that are not ours, however long, no more is kept.
constexpr std::size_t longest_begin = 64;

// Where the complete lines of steps up to `last` end; -1 when the file cannot be read.
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

// Whether a line's worth of bytes can be written at `end`; they are cut off again.
bool has_room(int fd, off_t end) {
  const std::string line(512, ' ');
  const ssize_t wrote = ::pwrite(fd, line.data(), line.size(), end);
  const int reason = wrote < 0 ? errno : ENOSPC;
  if (::ftruncate(fd, end) != 0) return false;
  errno = reason;
  return wrote == static_cast<ssize_t>(line.size());
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t steps_done) : path_(std::move(path)) {
  const OutputTarget target = output_target("metrics", path_);
  if (target.is_stream()) {  // which has no end to go on from
    stream_.emplace("metrics", target);
    return;
  }
  fd_ = ::open(target.file.c_str(), O_CREAT | O_CLOEXEC | O_RDWR | O_NONBLOCK | (steps_done > 0 ? 0 : O_TRUNC), 0666);
  const char* failed = fd_ < 0 ? "opened" : nullptr;
  if (!failed) {
    const off_t end = steps_done > 0 ? end_of_steps(fd_, steps_done) : 0;
    tried_ = end >= 0 && ::ftruncate(fd_, end) == 0 && has_room(fd_, end) && ::lseek(fd_, end, SEEK_SET) == end;
    if (!tried_) failed = "written";
  }
  if (!failed) return;
  const std::string why = std::strerror(errno);
  if (fd_ >= 0) ::close(fd_);
  throw Error(ErrorKind::input, fmt::format("--metrics {}: cannot be {} ({}); give another file", path_.string(), failed, why));
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::write_line(const std::string& text) {
  const std::string line = text + '\n';
  if (stream_) return stream_->write(line);
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t wrote = ::write(fd_, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const std::string why = std::strerror(errno);
      const off_t here = ::lseek(fd_, 0, SEEK_CUR);
      if (here >= 0 && ::ftruncate(fd_, here - static_cast<off_t>(done)) != 0) {
        // Nothing better can be done: a later resume cuts the rest off.
      }
      throw Error(ErrorKind::input,
                  fmt::format("--metrics {}: cannot be written ({}); make room or give another file", path_.string(), why));
    }
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace pipetrain
