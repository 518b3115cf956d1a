#include "catch.hpp"
#include "comm/control/address.hpp"
#include "comm/control/control_fixture.hpp"

using namespace pipetrain;
using control::addresses_in_run;

namespace {

control::ConnectionEnds ends(const char* local, const char* remote) {
  return {control::asio::ip::make_address(local), control::asio::ip::make_address(remote)};
}

using Addresses = std::vector<std::string>;

}  // namespace

TEST_CASE("the addresses of a run's processes are those of the interfaces that they connect by", "[control]") {
  CHECK(addresses_in_run({}) == Addresses{"127.0.0.1"});
  CHECK(addresses_in_run({ends("127.0.0.1", "127.0.0.1")}) == Addresses{"127.0.0.1", "127.0.0.1"});
  CHECK(addresses_in_run({ends("10.0.0.1", "10.0.0.7")}) == Addresses{"10.0.0.1", "10.0.0.7"});
  // One process on the coordinator's host has connected by loopback.
  CHECK(addresses_in_run({ends("127.0.1.1", "127.0.0.1"), ends("10.0.0.1", "10.0.0.7")}) ==
        Addresses{"10.0.0.1", "10.0.0.1", "10.0.0.7"});
  // A socket for both families writes IPv4 addresses so.
  CHECK(addresses_in_run({ends("::ffff:10.0.0.1", "::ffff:10.0.0.7")}) == Addresses{"10.0.0.1", "10.0.0.7"});
  CHECK(addresses_in_run({ends("fd00::1", "fd00::2")}) == Addresses{"fd00::1", "fd00::2"});
}

TEST_CASE("every process of a run on loopback knows that it is there", "[control]") {
  test::Planes planes = test::join_all(3);
  for (const auto& plane : planes) {
    for (int process = 0; process < 3; ++process) CHECK(plane->info(process).address == "127.0.0.1");
  }
  test::leave_all(planes);
}
