#include "comm/ucx/ucx_folder.hpp"

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "comm/ucx/file_descriptor.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/file_lock.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_begin = "pipetrain-ucx.", file_begin = "ucx_shm_posix_";
constexpr int tries = 8;  // to make a folder while others clean up

std::mutex one_opens;
std::weak_ptr<const UcxFolder> current;
// The folder's path, readable by a signal handler.
std::array<char, PATH_MAX> current_path{};
std::atomic<pid_t> made_by{0};  // 0: there is none, or its path is being written
static_assert(std::atomic<pid_t>::is_always_lock_free);

// Process numbers are unique only within one namespace.
std::uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// "pipetrain-ucx.NAMESPACE.PROCESS.XXXXXX"
struct Owner {
  std::uint64_t name_space = 0;
  pid_t process = 0;
};
std::string owner_name(const Owner& owner) {
  return std::string(name_begin) + std::to_string(owner.name_space) + "." + std::to_string(owner.process) + ".";
}
std::optional<Owner> owner_in(std::string_view name) {
  if (!name.starts_with(name_begin)) return {};
  const char* const end = name.data() + name.size();
  Owner owner;
  const auto space = std::from_chars(name.data() + name_begin.size(), end, owner.name_space);
  if (space.ec != std::errc() || space.ptr == end || *space.ptr != '.') return {};
  const auto process = std::from_chars(space.ptr + 1, end, owner.process);
  if (process.ec != std::errc() || process.ptr == end || *process.ptr != '.' || owner.process <= 0) return {};
  return owner;
}

int open_folder(const char* path) { return ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

void remove_files(int folder, const fs::path& path) {
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(file_begin)) ::unlinkat(folder, name.c_str(), 0);
  }
}

// True for a segment of UCX's kind whose process has ended and which nobody maps.
bool is_left_by(const Owner& owner, int segment) {
  struct shmid_ds status {};
  if (::shmctl(segment, IPC_STAT, &status) != 0) return false;
  const unsigned mode = status.shm_perm.mode & 0777U;
  return status.shm_perm.__key == IPC_PRIVATE && status.shm_perm.uid == ::geteuid() && status.shm_cpid == owner.process &&
         status.shm_nattch == 0 && (mode == 0600 || mode == 0660);
}

void remove_segments(const Owner& owner) {
  if (owner.name_space != pid_namespace() || ::kill(owner.process, 0) == 0 || errno != ESRCH) return;
  std::ifstream table("/proc/sysvipc/shm");
  std::string line;
  for (std::getline(table, line); std::getline(table, line);) {
    const std::size_t key = line.find_first_not_of(' '), number = line.find_first_not_of(' ', line.find(' ', key));
    int segment = -1;
    if (number == std::string::npos) continue;
    std::from_chars(line.data() + number, line.data() + line.size(), segment);
    if (segment >= 0 && is_left_by(owner, segment)) ::shmctl(segment, IPC_RMID, nullptr);
  }
}

void remove_leftover(const fs::path& path, const Owner& owner) {
  const FileDescriptor folder(open_folder(path.c_str()));
  struct stat status {};
  if (folder.get() < 0 || ::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid()) return;
  if (lock_file(folder.get()) != FileLock::held) return;  // its process lives
  if (!is_at_path(folder.get(), path.c_str())) return;    // another process has removed it
  remove_segments(owner);
  remove_files(folder.get(), path);
  ::rmdir(path.c_str());
}

}  // namespace

UcxFolder::UcxFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock), owner_(::getpid()) {
  made_by = 0;
  if (path_.size() >= current_path.size()) return;
  std::copy_n(path_.c_str(), path_.size() + 1, current_path.data());
  made_by = owner_;
}

UcxFolder::~UcxFolder() {
  if (owner_ == ::getpid()) {
    remove_files(lock_, path_);
    ::rmdir(path_.c_str());
  }
  ::close(lock_);
}

std::shared_ptr<const UcxFolder> UcxFolder::open(const fs::path& parent) {
  const std::lock_guard lock(one_opens);
  auto folder = current.lock();
  if (folder && folder->owner_ == ::getpid()) return folder;
  remove_ucx_leftovers(parent);
  folder = make(parent);
  current = folder;
  return folder;
}

// A process that cleans up between the creation and the lock holds the lock and removes the folder: then another folder
// is made, without waiting, since a stopped process may hold a lock for ever.
std::shared_ptr<const UcxFolder> UcxFolder::make(const fs::path& parent) {
  for (int tried = 0; tried < tries; ++tried) {
    std::string path = (parent / (owner_name({pid_namespace(), ::getpid()}) + "XXXXXX")).string();
    if (::mkdtemp(path.data()) == nullptr) return nullptr;
    FileDescriptor folder(open_folder(path.c_str()));
    if (folder.get() >= 0 && lock_file(folder.get()) == FileLock::held && is_at_path(folder.get(), path.c_str()))
      return std::shared_ptr<const UcxFolder>(new UcxFolder(std::move(path), folder.release()));
    ::rmdir(path.c_str());
  }
  return nullptr;
}

void remove_ucx_leftovers(const fs::path& parent) noexcept {
  std::error_code error;
  try {
    for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
      if (const auto owner = owner_in(entry->path().filename().string())) remove_leftover(entry->path(), *owner);
  } catch (const std::exception&) {
    // No memory for a name: the next process removes the folder.
  }
}

void remove_ucx_folder() noexcept {
  if (made_by == ::getpid()) ::rmdir(current_path.data());  // not in a process that was forked from this one
}

}  // namespace pipetrain
