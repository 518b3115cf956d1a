// The address of this host for itself.
#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace pipetrain {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace pipetrain
