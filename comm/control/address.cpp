#include "comm/control/address.hpp"

#include <fcntl.h>

#include <limits>

#include "comm/control/frame.hpp"
#include "comm/control/reasons.hpp"
#include "comm/control/standby_socket.hpp"
#include "core/error.hpp"

namespace pipetrain::control {
namespace {

bool is_literal(const std::string& host) {
  error_code error;
  asio::ip::make_address(host, error);
  return !error;
}

// This host's own name may resolve to loopback addresses alone (Debian maps it to 127.0.1.1), which others cannot
// reach: process 0 then listens on all of this host's addresses, where the token allows it.
asio::ip::address address_to_listen_at(asio::io_context& io, const Rendezvous& rendezvous) {
  tcp::resolver resolver(io);
  error_code error;
  const auto found = resolver.resolve(rendezvous.host, std::to_string(rendezvous.port), error);
  if (error || found.empty())
    throw Error(ErrorKind::peer_lost, "cannot listen at " + address_of(rendezvous) + ": the host's address is unknown (" +
                                          error.message() + "); give one of this host's own");
  const asio::ip::address first = found.begin()->endpoint().address();
  const bool name = rendezvous.host != "localhost" && !is_literal(rendezvous.host);
  if (name && first.is_loopback() && !rendezvous.token.empty()) return asio::ip::address_v4::any();
  return first;
}

}  // namespace

std::string address_of(const Rendezvous& rendezvous) { return address_text(rendezvous.host, rendezvous.port); }

void check_rendezvous(const Rendezvous& rendezvous) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::input, why); };
  constexpr int most = std::numeric_limits<std::uint16_t>::max();
  if (rendezvous.processes < 1 || rendezvous.processes > most)
    refuse("a run has 1 to " + std::to_string(most) + " processes, not " + std::to_string(rendezvous.processes));
  if (rendezvous.process < 0 || rendezvous.process >= rendezvous.processes)
    refuse("process " + std::to_string(rendezvous.process) + " is not one of the run's " +
           std::to_string(rendezvous.processes) + ", which are counted from 0");
  if (rendezvous.token.size() > most_token_bytes)
    refuse("the run's token has " + std::to_string(rendezvous.token.size()) + " bytes; at most " +
           std::to_string(most_token_bytes) + " are allowed");
}

void check_token(const Rendezvous& rendezvous, const asio::ip::address& address) {
  if (address.is_loopback() || !rendezvous.token.empty()) return;
  throw Error(ErrorKind::input, {"master", address_of(rendezvous)},
              "others than this host's programs could join the run there: give every process the same token, by a file or "
              "PIPETRAIN_TOKEN");
}

tcp::acceptor listen(asio::io_context& io, const Rendezvous& rendezvous) {
  if (rendezvous.gathering) {
    const StandbySocket& standby = *rendezvous.gathering->standby;
    return {io, standby.is_v6() ? tcp::v6() : tcp::v4(), standby.duplicate()};
  }
  const asio::ip::address address = address_to_listen_at(io, rendezvous);
  check_token(rendezvous, address);
  const tcp::endpoint endpoint(address, rendezvous.port);
  tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);  // a run that has just ended may still use it
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) return acceptor;
  std::string advice = "check the address";
  if (error == asio::error::address_in_use) advice = "another run or program listens there: end it, or choose another port";
  if (error == boost::system::errc::address_not_available)
    advice = "it is not an address of this host: process 0 must run on the host that is named";
  throw Error(ErrorKind::unavailable, "cannot listen at " + address_of(rendezvous) + ": " + error.message() + "; " + advice);
}

std::vector<std::string> addresses_in_run(const std::vector<ConnectionEnds>& ends) {
  const auto plain = [](const asio::ip::address& address) {
    const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
    return mapped ? asio::ip::address(asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6())) : address;
  };
  asio::ip::address own = asio::ip::address_v4::loopback();
  for (const ConnectionEnds& one : ends) {
    if (!plain(one.local).is_loopback()) {
      own = plain(one.local);
      break;
    }
  }
  std::vector<std::string> addresses = {own.to_string()};
  for (const ConnectionEnds& one : ends) {
    addresses.push_back((plain(one.remote).is_loopback() ? own : plain(one.remote)).to_string());
  }
  return addresses;
}

}  // namespace pipetrain::control
