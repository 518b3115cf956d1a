// Where UCX makes its files of shared memory: a folder of this process's own, by which another one knows what is left of it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>

namespace pipetrain {

inline constexpr const char* ucx_folders = "/dev/shm";

// UCX makes a file, maps it and removes its name; likewise with segments of System V. A process that is killed in between
// leaves them behind, with nothing in their names that tells whose they are. Here they lie in a folder that names the process
// and that it holds a lock on (flock): the kernel lets go of it however the process ends, and whatever namespace it lived in.
class UcxFolder {
 public:
  // The one of this process, made in `parent` where no worker of it has one. Null where none can be made there: UCX then makes
  // its files in a place of its own. First removes what processes left behind that are certainly dead. Thread-safe.
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
  pid_t owner_;  // not a process that it has forked
};

// Removes folders in `parent` whose processes have ended, with the files of UCX's in them, and the segments of System V that
// these processes had made and nobody maps. Only what belongs to this user. Never throws.
void remove_ucx_leftovers(const std::filesystem::path& parent) noexcept;

}  // namespace pipetrain
