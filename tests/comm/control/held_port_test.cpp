#include "comm/control/held_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"

using namespace pipetrain;

namespace {

// Listens as a server does. Returns true if that succeeds.
bool listens(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool can = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(socket, 1) == 0;
  ::close(socket);
  return can;
}

}  // namespace

TEST_CASE("a held port can be listened on, again and again, and no other holder gets it") {
  const HeldPort first(0);
  REQUIRE(first.port() != 0);
  for (int i = 0; i < 3; ++i) CHECK(listens(first.port()));
  const HeldPort second(first.port());
  CHECK(second.port() != first.port());
  CHECK(second.port() != 0);
  CHECK(listens(second.port()));
}

TEST_CASE("a wanted port is taken where it is free") {
  std::uint16_t port = 0;
  {
    const HeldPort any(0);
    port = any.port();
  }
  CHECK(HeldPort(port).port() == port);
}
