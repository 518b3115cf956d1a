#include "apps/train/save_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "apps/signals/signal_safe_lock.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/made_folders.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

constexpr const char* file_name = ".pipetrain.lock";

SignalSafeLock held_lock;
const SaveLock* held = nullptr;

[[noreturn]] void fail_lock(const fs::path& folder, const std::string& what) {
  throw Error(ErrorKind::input, {"save", folder.string()}, what);
}

[[noreturn]] void fail_lock_write(const fs::path& folder, const std::string& reason, int error) {
  throw Error(kind_of_write_failure(error),
              fmt::format("--save {}: cannot be written ({}); check the disk and the permissions", folder.string(), reason));
}

// Of the whole file, for one process.
struct flock whole_file() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

// Nothing where the kernel does not know it: it is on another host, or in another container.
std::string process_holding(int descriptor) {
  struct flock range = whole_file();
  const bool known = ::fcntl(descriptor, F_GETLK, &range) == 0 && range.l_type != F_UNLCK && range.l_pid > 0;
  return known ? fmt::format(" (process {})", range.l_pid) : "";
}

// A run that ends removes the file: what was opened before and locked after is no longer the one that others see.
bool is_there(int descriptor, const fs::path& file) {
  struct stat opened {
  }, there{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(file.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
         opened.st_dev == there.st_dev;
}

}  // namespace

SaveLock::SaveLock(const fs::path& folder, std::vector<std::string>& notes) : folder_(folder), file_(folder / file_name) {
  const std::lock_guard lock(held_lock);
  try {
    while (!take(notes)) {
    }
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    remove_empty_folders(made_);
    throw;
  }
  held = this;
}

SaveLock::~SaveLock() {
  const std::lock_guard lock(held_lock);
  remove();
  if (descriptor_ >= 0) ::close(descriptor_);
  held = nullptr;
}

// False when another run that was ending removed the file or the folder meanwhile.
bool SaveLock::take(std::vector<std::string>& notes) {
  std::error_code error;
  const std::vector<fs::path> made = make_folders(folder_, error);
  made_.insert(made_.end(), made.begin(), made.end());
  if (error) fail_lock_write(folder_, error.message(), error.value());
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0 && errno == ENOENT && !fs::exists(folder_)) return false;
  if (descriptor_ < 0) fail_lock_write(folder_, fmt::format("{}: {}", file_name, std::strerror(errno)), errno);
  const struct flock range = whole_file();
  if (::fcntl(descriptor_, F_SETLK, &range) == 0) {
    if (is_there(descriptor_, file_)) return true;
    ::close(std::exchange(descriptor_, -1));
    return false;
  }
  if (errno == EAGAIN || errno == EACCES)
    fail_lock(folder_, fmt::format("another run{} is saving there; wait until it ends, or give another folder",
                                   process_holding(descriptor_)));
  notes.push_back(fmt::format("--save {}: the file system has no locks ({}): see that no other run saves there",
                              folder_.string(), std::strerror(errno)));
  return true;
}

void SaveLock::remove() const noexcept {
  ::unlink(file_.c_str());
  remove_empty_folders(made_);
}

void remove_save_lock() {
  if (held_lock.lock_for_good() && held) held->remove();
}

}  // namespace pipetrain
