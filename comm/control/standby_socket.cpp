#include "comm/control/standby_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void refuse_standby(const std::string& address) {
  throw Error(ErrorKind::unavailable,
              "cannot listen at a port of " + address + ": " + std::strerror(errno) + "; leave elastic out");
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress any_port_of(const std::string& address, bool v6) {
  SocketAddress at;
  if (v6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(at.storage);
    to.sin6_family = AF_INET6;
    ::inet_pton(AF_INET6, address.c_str(), &to.sin6_addr);
    at.size = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(at.storage);
    to.sin_family = AF_INET;
    ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
    at.size = sizeof to;
  }
  return at;
}

}  // namespace

StandbySocket::StandbySocket(const std::string& address) : address_(address), v6_(address.find(':') != std::string::npos) {
  socket_ = ::socket(v6_ ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress at = any_port_of(address, v6_);
  if (socket_ < 0 || ::bind(socket_, at.get(), at.size) != 0 || ::listen(socket_, SOMAXCONN) != 0 ||
      ::getsockname(socket_, at.get(), &at.size) != 0) {
    const int error = errno;
    if (socket_ >= 0) ::close(socket_);
    errno = error;
    refuse_standby(address);
  }
  port_ =
      ntohs(v6_ ? reinterpret_cast<sockaddr_in6&>(at.storage).sin6_port : reinterpret_cast<sockaddr_in&>(at.storage).sin_port);
}

StandbySocket::~StandbySocket() { ::close(socket_); }

int StandbySocket::duplicate() const {
  const int other = ::fcntl(socket_, F_DUPFD_CLOEXEC, 0);
  if (other < 0) refuse_standby(address_);
  return other;
}

}  // namespace pipetrain
