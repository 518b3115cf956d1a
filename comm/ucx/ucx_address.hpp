// Where a process listens for the others' UCX connections.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <span>
#include <string>

#include "comm/control_plane.hpp"
#include "core/wire.hpp"

namespace pipetrain {

struct SocketAddress {
  sockaddr_storage storage{};
  // Valid as long as this.
  ucs_sock_addr_t ucx() const;
};

// This process's address by which the run reaches it.
std::string own_address(const ControlPlane& control);
// A numeric address of either family, port 0. Throws Error(internal) for another text.
SocketAddress parse_address(const std::string& text);

// "10.0.0.1:4711", "[fe80::1]:4711".
std::string to_string(const SocketAddress& address);

// The listener's own, for unpack_address() in another process.
Bytes listener_address(ucp_listener_h listener);
// Throws Error(peer_lost) for bytes that are no address.
SocketAddress unpack_address(std::span<const std::byte> packed);

}  // namespace pipetrain
