// Determines the address on which process 0 listens.
#pragma once

#include <string>
#include <vector>

#include "comm/control/asio.hpp"
#include "comm/control_plane.hpp"

namespace pipetrain::control {

// Returns "host:port", with brackets around an IPv6 address.
std::string address_of(const Rendezvous& rendezvous);

// Throws Error(input) for settings that no process of a run can have.
void check_rendezvous(const Rendezvous& rendezvous);

// Throws Error(input) where other hosts could reach the run and it has no token.
void check_token(const Rendezvous& rendezvous, const asio::ip::address& address);

// Resolves the host, then listens; a gathering listens at its standby socket. Throws Error: input where a token is missing,
// peer_lost where the host is unknown, unavailable where it is another host or the address is in use.
tcp::acceptor listen(asio::io_context& io, const Rendezvous& rendezvous);

// The addresses of the coordinator and of another process, as their connection has them.
struct ConnectionEnds {
  asio::ip::address local, remote;
};
// Returns the addresses at which the run reaches its processes, by process. ends: those of the coordinator's connections to
// the other processes. A process on the coordinator's host may have connected over loopback; others reach it at the
// coordinator's address.
std::vector<std::string> addresses_in_run(const std::vector<ConnectionEnds>& ends);

}  // namespace pipetrain::control
