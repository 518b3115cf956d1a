#include "bench/faults/dropped_links.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace pipetrain::bench {
namespace {

bool is_connected(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  return peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
}

}  // namespace

int drop_links(pid_t process) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) return 0;
  int dropped = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
    const int number = std::atoi(entry.path().filename().c_str());
    const int socket = static_cast<int>(::syscall(SYS_pidfd_getfd, handle, number, 0));
    if (socket < 0) continue;
    if (is_connected(socket) && ::shutdown(socket, SHUT_RDWR) == 0) ++dropped;
    ::close(socket);
  }
  ::close(handle);
  return dropped;
}

}  // namespace pipetrain::bench
