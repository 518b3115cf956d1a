// Locks on open files and folders, by which processes recognize that another one is using them.
#pragma once

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace pipetrain {

enum class FileLock { held, held_by_another, unavailable };

// Locks an open file or folder (flock). The lock lasts until the descriptor is closed, whatever else opens and closes
// the file meanwhile, and the kernel releases it however the process ends. It holds against other hosts if the file
// system has locks across hosts; for that a file must be open for writing. Returns unavailable, with errno, if the file
// system has no locks.
inline FileLock lock_file(int descriptor) noexcept {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return FileLock::held;
  // A network file system may answer as for locks of ranges.
  return errno == EWOULDBLOCK || errno == EACCES ? FileLock::held_by_another : FileLock::unavailable;
}

// Returns true if the path leads to the open file or folder: it may have been removed or replaced since it was opened.
inline bool is_at_path(int descriptor, const char* path) noexcept {
  struct stat opened {
  }, there{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path, &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

}  // namespace pipetrain
