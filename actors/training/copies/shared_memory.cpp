#include "actors/training/copies/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void fail_to_make(std::size_t bytes) {
  throw Error(ErrorKind::out_of_memory,
              "the host has no " + std::to_string(bytes) + " bytes of memory that processes share: " + std::strerror(errno));
}

}  // namespace

// A file without a name needs no place in /dev/shm, which may be small, and no clean-up when processes are killed.
std::shared_ptr<SharedMemory> SharedMemory::make(std::size_t bytes) {
  const int file = ::memfd_create("pipetrain", MFD_CLOEXEC);
  if (file < 0) fail_to_make(bytes);
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    fail_to_make(bytes);
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(file, bytes));
}

std::shared_ptr<SharedMemory> SharedMemory::open(const Key& key) {
  const std::string path = "/proc/" + std::to_string(key.process) + "/fd/" + std::to_string(key.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    const bool gone = errno == ENOENT || errno == ESRCH;
    throw Error(gone ? ErrorKind::peer_lost : ErrorKind::unavailable,
                "opening memory of process " + std::to_string(key.process) + " as " + path +
                    " failed: " + std::strerror(errno) + "; processes of one host share memory only if they run as one user");
  }
  struct stat found {};
  const bool same =
      ::fstat(file, &found) == 0 && found.st_ino == key.inode && static_cast<std::size_t>(found.st_size) >= key.bytes;
  if (!same) {  // the descriptor has become that of another file
    ::close(file);
    throw Error(ErrorKind::peer_lost, "process " + std::to_string(key.process) + " has given up memory that it shared");
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(file, key.bytes));
}

SharedMemory::SharedMemory(int file, std::size_t bytes) : key_{::getpid(), file, 0, bytes} {
  struct stat made {};
  if (::fstat(file, &made) == 0) key_.inode = made.st_ino;
  data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data_ == MAP_FAILED) {
    ::close(file);
    fail_to_make(bytes);
  }
  ::madvise(data_, bytes, MADV_HUGEPAGE);  // fewer faults where the kernel has huge pages for shared memory
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, key_.bytes);
  ::close(static_cast<int>(key_.file));
}

}  // namespace pipetrain
