// The folders of UCX's files that a process has in /dev/shm.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <string>

namespace pipetrain {

inline std::size_t ucx_folders_of(pid_t process) {
  struct stat space {};  // the PID namespace: other hosts or containers may use the same numbers
  ::stat("/proc/self/ns/pid", &space);
  const std::string begin = "pipetrain-ucx." + std::to_string(space.st_ino) + "." + std::to_string(process) + ".";
  std::size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    folders += entry.path().filename().string().starts_with(begin);
  return folders;
}

}  // namespace pipetrain
