#include "apps/output/output_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/signals/signal_safe_lock.hpp"
#include "core/error.hpp"
#include "core/file_lock.hpp"
#include "files/file_io.hpp"
#include "files/made_folders.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

SignalSafeLock held_lock;
std::array<const OutputLock*, most_output_locks> held{};

// Writes the name of this process into the lock's file. The name only serves messages, so a full disk does not matter.
void write_holder(int descriptor) {
  utsname host{};
  ::uname(&host);
  const std::string holder = fmt::format("process {} on {}", ::getpid(), host.nodename);
  static_cast<void>(::ftruncate(descriptor, 0) == 0 && ::pwrite(descriptor, holder.data(), holder.size(), 0) < 0);
}

// Returns the name of the process that holds the lock; nothing if it has not written it yet.
std::string holder_of(int descriptor) {
  std::array<char, 200> name{};
  const ssize_t size = ::pread(descriptor, name.data(), name.size(), 0);
  return size > 0 ? fmt::format(" ({})", std::string_view(name.data(), static_cast<std::size_t>(size))) : "";
}

fs::path lock_of_folder(const fs::path& folder) { return folder / ".pipetrain.lock"; }

fs::path lock_of_file(const fs::path& file) { return file.parent_path() / fmt::format(".{}.lock", file.filename().string()); }

bool is_held(const fs::path& lock) {
  const int descriptor = ::open(lock.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool is_locked = lock_file(descriptor) != FileLock::held;
  ::close(descriptor);
  return is_locked;
}

}  // namespace

bool is_folder_in_use(const fs::path& folder) { return is_held(lock_of_folder(folder)); }
bool is_file_in_use(const fs::path& file) { return is_held(lock_of_file(file)); }

std::unique_ptr<OutputLock> OutputLock::of_folder(const std::string& option, const fs::path& folder,
                                                  std::vector<std::string>& notes) {
  const char* const done_there = option == "save" ? "saving" : "writing";
  return std::unique_ptr<OutputLock>(
      new OutputLock({option, folder, folder, lock_of_folder(folder), done_there, "folder"}, notes));
}

std::unique_ptr<OutputLock> OutputLock::of_file(const std::string& option, const OutputTarget& target,
                                                std::vector<std::string>& notes) {
  const fs::path folder = target.file.has_parent_path() ? target.file.parent_path() : fs::path(".");
  return std::unique_ptr<OutputLock>(
      new OutputLock({option, target.path, folder, lock_of_file(folder / target.file.filename()), "writing", "file"}, notes));
}

OutputLock::OutputLock(LockedOutput output, std::vector<std::string>& notes) : output_(std::move(output)) {
  const std::lock_guard lock(held_lock);
  try {
    while (!take(notes)) {
    }
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    remove_empty_folders(made_);
    throw;
  }
  const auto free = std::find(held.begin(), held.end(), nullptr);
  if (free != held.end()) *free = this;
}

OutputLock::~OutputLock() {
  const std::lock_guard lock(held_lock);
  remove();
  if (descriptor_ >= 0) ::close(descriptor_);
  std::replace(held.begin(), held.end(), static_cast<const OutputLock*>(this), static_cast<const OutputLock*>(nullptr));
}

void OutputLock::fail(const std::string& what) const {
  throw Error(ErrorKind::input, {output_.option, output_.shown.string()}, what);
}

void OutputLock::fail_write(const std::string& reason, int error) const {
  throw Error(kind_of_write_failure(error), fmt::format("--{} {}: cannot be written ({}); check the disk and the permissions",
                                                        output_.option, output_.shown.string(), reason));
}

// Returns false if another run that was ending has removed the file or the folder meanwhile.
bool OutputLock::take(std::vector<std::string>& notes) {
  std::error_code error;
  const std::vector<fs::path> made = make_folders(output_.folder, error);
  made_.insert(made_.end(), made.begin(), made.end());
  if (error) fail_write(error.message(), error.value());
  descriptor_ = ::open(output_.file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0 && errno == ENOENT && !fs::exists(output_.folder)) return false;
  if (descriptor_ < 0) fail_write(fmt::format("{}: {}", output_.file.filename().string(), std::strerror(errno)), errno);
  const FileLock found = lock_file(descriptor_);
  if (found == FileLock::held) {
    // A run that ends removes the file: one that was opened before that and locked after it is not the one that others see.
    if (!is_at_path(descriptor_, output_.file.c_str())) {
      ::close(std::exchange(descriptor_, -1));
      return false;
    }
    write_holder(descriptor_);
    return true;
  }
  if (found == FileLock::held_by_another)
    fail(fmt::format("another run{} is {} there; wait until it ends, or give another {}", holder_of(descriptor_),
                     output_.done_there, output_.other));
  notes.push_back(fmt::format("--{} {}: the file system has no locks ({}); make sure that no other run is {} there",
                              output_.option, output_.shown.string(), std::strerror(errno), output_.done_there));
  return true;
}

void OutputLock::check() const {
  if (is_at_path(descriptor_, output_.file.c_str())) return;
  // A file system that fails for a moment has not lost the folder; a write there will report the failure.
  struct stat there {};
  if (::stat(output_.file.c_str(), &there) != 0 && errno != ENOENT && errno != ENOTDIR) return;
  throw Error(ErrorKind::unavailable, {output_.option, output_.shown.string()},
              fmt::format("was removed or replaced while the run was {} there, or {} was, so that another run may use it now; "
                          "nothing more is saved; start the run again",
                          output_.done_there, output_.file.filename().string()));
}

void OutputLock::remove() const noexcept {
  if (!is_at_path(descriptor_, output_.file.c_str())) return;
  ::unlink(output_.file.c_str());
  remove_empty_folders(made_);
}

void remove_output_locks() {
  if (!held_lock.lock_for_good()) return;
  for (const OutputLock* lock : held)
    if (lock != nullptr) lock->remove();
}

}  // namespace pipetrain
