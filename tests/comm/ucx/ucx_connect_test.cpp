#include <arpa/inet.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/faults/listening_sockets.hpp"
#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_tcp_admission.hpp"
#include "comm/ucx/ucx_traffic.hpp"
#include "comm/ucx/ucx_transport.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "wait_until.hpp"

using namespace pipetrain;

namespace {

constexpr int processes = 4;

// Sums one number over all ranks, one in each process.
void sum_over_all(UcxTransport& transport, int process, std::uint32_t number, int ranks = processes) {
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("rank");
  std::vector<int> members;
  float expected = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(rank);
    expected += static_cast<float>(rank + 1);
  }
  const auto groups = transport.group(members, number, {{process, device.get()}}, GroupUse::alone);
  float value = static_cast<float>(process + 1);
  groups.at(process)->all_reduce(*stream, {&value, {1}, DType::f32}, Reduction::sum);
  stream->synchronize();
  test::require(value == expected, "the sum is " + std::to_string(value));
}

// Sends noise to every socket on which this process listens. Returns how many connections were accepted.
int disturb_itself() {
  int taken = 0;
  for (const auto& socket : bench::listening_sockets(::getpid())) {
    for (const std::string& noise : bench::noises()) {
      const int connection = bench::shout(socket, noise);
      if (connection < 0) continue;
      ++taken;
      ::close(connection);
    }
  }
  return taken;
}

struct Listening {
  int descriptor = -1;
  bench::ListeningSocket socket;
};

Listening listen_on(int family, const std::string& address) {
  Listening listening;
  auto& place = listening.socket.address;
  place.ss_family = static_cast<sa_family_t>(family);
  const bool v6 = family == AF_INET6;
  void* to = v6 ? static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(place).sin6_addr)
                : &reinterpret_cast<sockaddr_in&>(place).sin_addr;
  ::inet_pton(family, address.c_str(), to);
  listening.socket.size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto* at = reinterpret_cast<sockaddr*>(&place);
  if (socket < 0 || ::bind(socket, at, listening.socket.size) != 0 || ::listen(socket, 8) != 0) return listening;
  ::getsockname(socket, at, &listening.socket.size);
  listening.descriptor = socket;
  return listening;
}

// Checks the error of process 1, which waits for a process 0 that gives an address but never greets.
void check_unreachable(bool exists, const std::string& why) {
  test::SharedControl shared(2);
  const auto wrong = test::in_processes(2, [&](int process) {
    const auto control = shared.plane(process);
    if (process == 0 && !exists) {
      control->exchange("ucx key", Bytes(sizeof(std::uint64_t)));
      WireWriter address;
      address.bytes(UcxWorker().address());
      address.list(std::vector<int>(), [](int) {});
      control->exchange("ucx addresses", std::move(address).data());
      control->exchange("done", {});
      return;
    }
    std::string error;
    {
      UcxWorker worker;
      UcxPeers peers(worker, *control, std::chrono::seconds(1));
      peers.join();
      if (process == 1) {
        peers.connect({0});
        try {
          peers.wait_connected({0});
        } catch (const Error& lost) {
          if (lost.kind() == ErrorKind::peer_lost) error = lost.what();
        }
      }
      control->exchange("done", {});
    }
    if (process == 0) return;
    test::require(error.find("process 0") == 0 && error.find(why) != std::string::npos, "it says: " + error);
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

}  // namespace

// The others connect, and send, as soon as they have its address.
TEST_CASE("a process that the others reach before it connects itself is connected all the same") {
  for (int late = 0; late < processes; ++late) {
    test::SharedControl shared(processes);
    const auto wrong = test::in_processes(processes, [&](int process) {
      const auto control = shared.plane(process, std::chrono::milliseconds(process == late ? 50 : 0));
      const Mesh mesh = test::a_rank_each(processes);
      UcxTransport transport(*control, mesh);
      for (std::uint32_t number = 1; number <= 3; ++number) sum_over_all(transport, process, number);
      control->exchange("done", {});
    });
    for (const auto& line : wrong) UNSCOPED_INFO("process " << late << " is late: " << line);
    CHECK(wrong.empty());
  }
}

TEST_CASE("processes of one machine do not listen over UCX, and those of several on the network that joins them") {
  for (const bool one_machine : {true, false}) {
    test::SharedControl shared(2, one_machine);
    const auto wrong = test::in_processes(2, [&](int process) {
      const auto control = shared.plane(process);
      const Mesh mesh = test::a_rank_each(2);
      UcxTransport transport(*control, mesh);
      sum_over_all(transport, process, 1, 2);
      const auto sockets = bench::listening_sockets(::getpid());
      test::require(sockets.empty() == one_machine, std::to_string(sockets.size()) + " sockets listen");
      for (const auto& socket : sockets) test::require(socket.is_loopback(), "a socket listens on another network");
      control->exchange("done", {});
    });
    for (const auto& line : wrong) UNSCOPED_INFO(line);
    CHECK(wrong.empty());
  }
}

TEST_CASE("UCX's sockets accept no connection once the processes are connected, and a run continues whatever is sent",
          "[hostile]") {
  test::SharedControl shared(3, false);
  const auto wrong = test::in_processes(3, [&](int process) {
    const auto control = shared.plane(process);
    const Mesh mesh = test::a_rank_each(3);
    UcxTransport transport(*control, mesh);
    sum_over_all(transport, process, 1, 3);
    const auto sockets = bench::listening_sockets(::getpid());
    test::require(!sockets.empty(), "nothing listens: the test sees nothing");
    for (const auto& socket : sockets)
      test::require(test::wait_until([&] { return !bench::takes_connections(socket); }), "a stranger is let in");
    test::require(disturb_itself() == 0, "a stranger is let in");
    sum_over_all(transport, process, 2, 3);
    control->exchange("done", {});
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

TEST_CASE("a socket takes connections from the addresses that are admitted, and from no others") {
  for (const int family : {AF_INET, AF_INET6}) {
    const std::string own = family == AF_INET ? "127.0.0.1" : "::1";
    const auto listening = listen_on(family, own);
    if (listening.descriptor < 0) continue;  // the system has no IPv6
    CHECK(bench::takes_connections(listening.socket));
    admit_connections(listening.descriptor, {});
    CHECK_FALSE(bench::takes_connections(listening.socket));
    admit_connections(listening.descriptor, {"10.0.0.1", "fd00::2", own, "192.0.2.7"});
    CHECK(bench::takes_connections(listening.socket));
    admit_connections(listening.descriptor, {"10.0.0.1", "127.0.0.2", "fd00::1", "::2", "1::1"});
    CHECK_FALSE(bench::takes_connections(listening.socket));
    std::set<std::string> many = {own};
    int next = 0;
    const auto add_up_to = [&](std::size_t count) {
      for (; many.size() < count; ++next)
        many.insert(family == AF_INET ? "10.1." + std::to_string(next / 200) + "." + std::to_string(next % 200)
                                      : "fd00::" + std::to_string(next));
    };
    add_up_to(300);
    admit_connections(listening.descriptor, many);
    CHECK(bench::takes_connections(listening.socket));
    many.erase(own);
    add_up_to(3000);
    admit_connections(listening.descriptor, many);  // more than a filter can hold
    CHECK(bench::takes_connections(listening.socket));
    ::close(listening.descriptor);
  }
}

// The processes are late by random times, and none has a core for itself.
TEST_CASE("many processes connect again and again on a loaded machine", "[slow]") {
  constexpr int rounds = 20;
  test::SharedControl shared(processes);
  const auto wrong = test::in_processes(processes, [&](int process) {
    std::atomic<bool> over = false;
    std::vector<std::thread> load;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      load.emplace_back([&] {
        while (!over) {
        }
      });
    }
    std::mt19937_64 random(static_cast<std::uint64_t>(process));
    const Mesh mesh = test::a_rank_each(processes);
    const auto control = shared.plane(process);
    for (int round = 0; round < rounds; ++round) {
      UcxTransport transport(*control, mesh);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      sum_over_all(transport, process, 1);
      control->exchange("round", {});
    }
    over = true;
    for (auto& thread : load) thread.join();
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

TEST_CASE("a process whose UCX worker has ended is named at once") { check_unreachable(false, "cannot be reached over UCX: "); }

TEST_CASE("a process that is silent over UCX is named") {
  check_unreachable(true, "it did not answer from 127.0.0.1 within 1 s");
}
