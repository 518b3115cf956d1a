#include "apps/output/output_target.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "apps/signals/signals.hpp"
#include "core/error.hpp"
#include "core/parsing.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr int most_links = 40;  // the kernel's limit
constexpr int reader_look_ms = 50;
constexpr std::chrono::seconds patience_after_signal{2};

[[noreturn]] void fail_target(const std::string& option, const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("--{} {}: {}", option, path.string(), why));
}

fs::path folder_of_output(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Links in /proc lead to open files, whatever their text says.
bool is_in_proc(const fs::path& path) {
  struct statfs system {};
  return ::statfs(folder_of_output(path).c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

// Returns the number of this process's descriptor that the name stands for.
std::optional<int> own_descriptor(const fs::path& path) {
  struct stat folder {
  }, own{};
  const std::string name = path.filename().string();
  const auto number = number_from<int>(name);
  if (!number) return {};
  for (const char* descriptors : {"/proc/self/fd", "/proc/thread-self/fd"})
    if (::stat(folder_of_output(path).c_str(), &folder) == 0 && ::stat(descriptors, &own) == 0 && folder.st_dev == own.st_dev &&
        folder.st_ino == own.st_ino)
      return number;
  return {};
}

// Limits how long a run that has been asked to stop waits.
class Patience {
 public:
  bool is_over() {
    const auto now = std::chrono::steady_clock::now();
    if (stop_signal() == 0) return false;
    if (!end_) end_ = now + patience_after_signal;
    return now >= *end_;
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> end_;
};

[[noreturn]] void give_up(const std::string& option, const fs::path& path) {
  throw Error(ErrorKind::aborted,
              fmt::format("--{} {}: nobody read it when the run was stopped by {}; the rest is not written there", option,
                          path.string(), stop_signal_name()));
}

}  // namespace

void fail_write(const std::string& option, const fs::path& path, int error) {
  fail_target(option, path, fmt::format("cannot be written ({}); check the disk and the permissions", std::strerror(error)));
}

OutputTarget output_target(const std::string& option, const fs::path& path) {
  fs::path at = path;
  for (int links = 0; links <= most_links; ++links) {
    struct stat info {};
    if (::lstat(at.c_str(), &info) != 0) {
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) fail_write(option, path, errno);
      return {path, at, {}};
    }
    if (S_ISREG(info.st_mode)) return {path, at, {}};
    if (S_ISDIR(info.st_mode)) fail_target(option, path, "is a folder; give a file");
    if (S_ISSOCK(info.st_mode)) fail_target(option, path, "is a socket; give a file or a pipe");
    if (!S_ISLNK(info.st_mode)) return {path, {}, {}};
    if (is_in_proc(at)) return {path, {}, own_descriptor(at)};
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) fail_write(option, path, error.value());
    at = folder_of_output(at) / next;  // an absolute link replaces the folder
  }
  fail_write(option, path, ELOOP);
}

OutputStream::OutputStream(std::string option, const OutputTarget& target) : option_(std::move(option)), path_(target.path) {
  // An open descriptor is duplicated, so that its position and mode stay shared with other writers.
  fd_ = target.descriptor ? ::fcntl(*target.descriptor, F_DUPFD_CLOEXEC, 3) : open_for_reader(path_);
  if (fd_ >= 0 && (::fcntl(fd_, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    ::close(fd_);
    errno = EBADF;
    fd_ = -1;
  }
  if (fd_ < 0) fail_write(option_, path_, errno);
}

OutputStream::~OutputStream() { ::close(fd_); }

// Opens a pipe for writing only: as a reader of its own the run would wait for ever once the other reader has gone.
int OutputStream::open_for_reader(const fs::path& path) const {
  for (Patience patience;;) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 || (errno != ENXIO && errno != EINTR)) return fd;
    if (patience.is_over()) give_up(option_, path_);
    std::this_thread::sleep_for(std::chrono::milliseconds(reader_look_ms));
  }
}

void OutputStream::write(std::string_view bytes) {
  Patience patience;
  while (!bytes.empty()) {
    // A pipe that is ready has room for this many bytes, so the write does not block even if the descriptor is blocking.
    pollfd ready{fd_, POLLOUT, 0};
    const int found = ::poll(&ready, 1, reader_look_ms);
    if (found < 0 && errno != EINTR) fail_write(option_, path_, errno);
    if (found <= 0) {
      if (patience.is_over()) give_up(option_, path_);
      continue;
    }
    const ssize_t wrote = ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (wrote > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
      patience = {};
    } else if (wrote == 0 || (errno != EINTR && errno != EAGAIN)) {
      fail_write(option_, path_, wrote == 0 ? EIO : errno);
    } else if (patience.is_over()) {
      give_up(option_, path_);
    }
  }
}

OutputStreamBuffer::OutputStreamBuffer(OutputStream& stream) : stream_(stream), buffer_(1 << 16) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

OutputStreamBuffer::int_type OutputStreamBuffer::overflow(int_type next) {
  sync();
  if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
  return traits_type::not_eof(next);
}

int OutputStreamBuffer::sync() {
  stream_.write({pbase(), static_cast<std::size_t>(pptr() - pbase())});
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return 0;
}

}  // namespace pipetrain
