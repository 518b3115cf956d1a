#include "apps/output/growing_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "apps/output/stderr_lines.hpp"
#include "core/error.hpp"
#include "core/file_lock.hpp"

namespace pipetrain {

namespace {

// Returns true if a line's worth of bytes can be written at `end`, over the present bytes or at the end of the file;
// the bytes are cut off again.
bool has_room(int fd, off_t end) {
  const std::string line(512, ' ');
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) return false;
  if (size - end >= static_cast<off_t>(line.size())) return true;
  const ssize_t wrote = ::pwrite(fd, line.data(), line.size(), size);
  const int reason = wrote < 0 ? errno : ENOSPC;
  if (::ftruncate(fd, size) != 0) return false;
  errno = reason;
  return wrote == static_cast<ssize_t>(line.size());
}

}  // namespace

GrowingFile::GrowingFile(std::string option, std::filesystem::path path, const KeptEnd& kept)
    : option_(std::move(option)), path_(std::move(path)) {
  const OutputTarget target = output_target(option_, path_);
  if (target.is_stream()) {  // a stream has no end to continue from
    stream_.emplace(option_, target);
    return;
  }
  constexpr int flags = O_CREAT | O_CLOEXEC | O_RDWR | O_NONBLOCK;
  fd_ = ::open(target.file.c_str(), flags | O_EXCL, 0666);
  if (fd_ >= 0) created_ = target.file;
  if (fd_ < 0 && errno == EEXIST) fd_ = ::open(target.file.c_str(), flags, 0666);
  const char* failed = fd_ < 0 ? "opened" : nullptr;
  if (!failed) lock();
  if (!failed) {
    end_ = kept ? kept(fd_) : 0;
    tried_ = end_ >= 0 && has_room(fd_, end_);
    if (!tried_) failed = "written";
  }
  if (!failed) return;
  const std::string why = std::strerror(errno);
  close();
  throw Error(ErrorKind::input,
              fmt::format("--{} {}: cannot be {} ({}); give another file", option_, path_.string(), failed, why));
}

void GrowingFile::lock() {
  const FileLock found = lock_file(fd_);
  if (found == FileLock::unavailable)
    print_note(fmt::format("--{} {}: the file system has no locks ({}); make sure that no other run writes there", option_,
                           path_.string(), std::strerror(errno)));
  if (found != FileLock::held_by_another) return;
  created_.clear();  // another run owns it
  close();
  throw Error(ErrorKind::input, {option_, path_.string()},
              "another run is writing there; wait until it ends, or give another file");
}

GrowingFile::~GrowingFile() { close(); }

void GrowingFile::close() {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  if (!created_.empty() && !begun_) ::unlink(created_.c_str());
}

void GrowingFile::begin() {
  if (stream_ || begun_) return;
  if (::ftruncate(fd_, end_) != 0 || ::lseek(fd_, end_, SEEK_SET) != end_)
    throw Error(ErrorKind::input, fmt::format("--{} {}: cannot be written ({}); give another file", option_, path_.string(),
                                              std::strerror(errno)));
  begun_ = true;
}

void GrowingFile::write(std::string_view bytes) {
  if (stream_) return stream_->write(bytes);
  begin();
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const std::string why = std::strerror(errno);
      const off_t here = ::lseek(fd_, 0, SEEK_CUR);
      if (here >= 0 && ::ftruncate(fd_, here - static_cast<off_t>(done)) != 0) {
        // Nothing better can be done: a reader of the file finds that its end is unfinished.
      }
      throw Error(ErrorKind::input,
                  fmt::format("--{} {}: cannot be written ({}); make room or give another file", option_, path_.string(), why));
    }
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace pipetrain
