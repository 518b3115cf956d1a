#include "apps/output/growing_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace pipetrain {

namespace {

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

GrowingFile::GrowingFile(std::string option, std::filesystem::path path, const KeptEnd& kept)
    : option_(std::move(option)), path_(std::move(path)) {
  const OutputTarget target = output_target(option_, path_);
  if (target.is_stream()) {  // which has no end to go on from
    stream_.emplace(option_, target);
    return;
  }
  fd_ = ::open(target.file.c_str(), O_CREAT | O_CLOEXEC | O_RDWR | O_NONBLOCK | (kept ? 0 : O_TRUNC), 0666);
  const char* failed = fd_ < 0 ? "opened" : nullptr;
  if (!failed) {
    const off_t end = kept ? kept(fd_) : 0;
    tried_ = end >= 0 && ::ftruncate(fd_, end) == 0 && has_room(fd_, end) && ::lseek(fd_, end, SEEK_SET) == end;
    if (!tried_) failed = "written";
  }
  if (!failed) return;
  const std::string why = std::strerror(errno);
  if (fd_ >= 0) ::close(fd_);
  throw Error(ErrorKind::input,
              fmt::format("--{} {}: cannot be {} ({}); give another file", option_, path_.string(), failed, why));
}

GrowingFile::~GrowingFile() {
  if (fd_ >= 0) ::close(fd_);
}

void GrowingFile::write(std::string_view bytes) {
  if (stream_) return stream_->write(bytes);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const std::string why = std::strerror(errno);
      const off_t here = ::lseek(fd_, 0, SEEK_CUR);
      if (here >= 0 && ::ftruncate(fd_, here - static_cast<off_t>(done)) != 0) {
        // Nothing better can be done: whoever reads the file finds that its end is unfinished.
      }
      throw Error(ErrorKind::input,
                  fmt::format("--{} {}: cannot be written ({}); make room or give another file", option_, path_.string(), why));
    }
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace pipetrain
