#include "comm/ucx/ucx_cross_memory.hpp"

#include <sys/uio.h>

#include <cerrno>

namespace pipetrain {

bool read_cross_memory(const CrossMemory& from, void* to, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const iovec here{static_cast<std::byte*>(to) + done, bytes - done};
    const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(from.address + done)), bytes - done};
    const ssize_t read = process_vm_readv(static_cast<pid_t>(from.pid), &here, 1, &there, 1, 0);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    done += static_cast<std::size_t>(read);
  }
  return true;
}

}  // namespace pipetrain
