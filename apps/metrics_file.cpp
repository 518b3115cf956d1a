#include "apps/metrics_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

namespace pipetrain {

namespace {

std::string exact(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.17g}", *value) : "null";
}

std::string shortest(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "null";
}

std::string list(const std::vector<std::optional<std::int64_t>>& values) {
  if (values.empty()) return "null";
  std::string text = "[";
  for (const auto& value : values)
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", value ? fmt::format("{}", *value) : "null");
  return text + "]";
}

// Where the last complete line ends.
off_t end_of_last_line(int fd) {
  char buffer[4096];
  for (off_t end = ::lseek(fd, 0, SEEK_END); end > 0;) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(sizeof buffer));
    const ssize_t got = ::pread(fd, buffer, static_cast<std::size_t>(end - begin), begin);
    if (got <= 0) return end;
    for (ssize_t at = got; at > 0; --at)
      if (buffer[at - 1] == '\n') return begin + at;
    end = begin;
  }
  return 0;
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

std::string to_json_line(const StepMetrics& metrics) {
  return fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"seconds":{},"elapsed":{},"tokens_per_second":{},)"
      R"("tokens_per_second_per_device":{},"tflops_per_device":{},"mfu":{},"bubble":{},"memory_bytes":{},"loss_scale":{},"skipped":{}}})",
      metrics.step, exact(metrics.loss), exact(metrics.grad_norm), exact(metrics.lr), metrics.tokens, shortest(metrics.seconds),
      shortest(metrics.elapsed), shortest(metrics.tokens_per_second), shortest(metrics.tokens_per_second_per_device),
      shortest(metrics.tflops_per_device), shortest(metrics.mfu), shortest(metrics.bubble), list(metrics.memory_bytes),
      shortest(metrics.loss_scale), metrics.skipped);
}

MetricsFile::MetricsFile(std::filesystem::path path, bool append) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
  const char* failed = fd_ < 0 ? "opened" : nullptr;
  struct stat info {};
  if (!failed && ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) {  // a pipe or a terminal has no end to go on from
    const off_t end = append ? end_of_last_line(fd_) : 0;
    tried_ = ::ftruncate(fd_, end) == 0 && has_room(fd_, end) && ::lseek(fd_, end, SEEK_SET) == end;
    if (!tried_) failed = "written";
  }
  if (!failed) return;
  const std::string why = std::strerror(errno);
  if (fd_ >= 0) ::close(fd_);
  throw Error(ErrorKind::input, fmt::format("--metrics {}: cannot be {} ({}); give another file", path_.string(), failed, why));
}

MetricsFile::~MetricsFile() { ::close(fd_); }

void MetricsFile::write(const StepMetrics& metrics) {
  const std::string line = to_json_line(metrics) + '\n';
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
