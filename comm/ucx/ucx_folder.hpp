// The folder of this process for UCX's shared-memory files, which identifies them as its own when it has died.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>

namespace pipetrain {

inline constexpr const char* ucx_folders = "/dev/shm";

// UCX makes a file, maps it and removes its name; likewise with System V segments. A process that is killed in between
// leaves them behind, and their names do not say whose they are. Here they are in a folder that names the process and
// that it holds a lock on (core/file_lock.hpp): the kernel releases it however the process ends, and in whatever namespace it
// lived.
class UcxFolder {
 public:
  // Returns the folder of this process, made in `parent` unless a worker has one already. Null where none can be made:
  // UCX then uses its default folder. First removes leftovers of processes that are certainly dead. Thread-safe.
  static std::shared_ptr<const UcxFolder> open(const std::filesystem::path& parent = ucx_folders);

  UcxFolder(const UcxFolder&) = delete;
  UcxFolder& operator=(const UcxFolder&) = delete;
  ~UcxFolder();  // removes it

  const std::string& path() const { return path_; }

 private:
  UcxFolder(std::string path, int lock);
  static std::shared_ptr<const UcxFolder> make(const std::filesystem::path& parent);

  std::string path_;
  int lock_;
  pid_t owner_;  // not a process that was forked from it
};

// Removes folders in `parent` whose processes have ended, with UCX's files in them, and the System V segments that
// these processes had made and nobody maps. Only those of this user. Never throws.
void remove_ucx_leftovers(const std::filesystem::path& parent) noexcept;

}  // namespace pipetrain
