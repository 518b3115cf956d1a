#include "comm/control/held_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "comm/control/loopback.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

bool bind_to(int socket, std::uint16_t port) {
  const sockaddr_in address = loopback(port);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

HeldPort::HeldPort(std::uint16_t wanted) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (socket_ < 0 || (!bind_to(socket_, wanted) && !bind_to(socket_, 0))) {
    const int error = errno;
    if (socket_ >= 0) ::close(socket_);
    throw Error(ErrorKind::unavailable, std::string("no port of the loopback address is free (") + std::strerror(error) +
                                            "); end what holds them, or name one");
  }
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  // Set only now: binding without it proved that nobody else has the port.
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

HeldPort::~HeldPort() { ::close(socket_); }

}  // namespace pipetrain
