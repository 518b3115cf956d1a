#include <netinet/in.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "comm/shared_control.hpp"
#include "comm/ucx/ucx_address.hpp"
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

// Connections that are not even UCX's: with random bytes, of which some close at once.
std::vector<int> shout(const SocketAddress& place, int connections) {
  std::mt19937_64 random(21);
  std::vector<int> open;
  for (int i = 0; i < connections; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const ucs_sock_addr_t to = place.ucx();
    test::require(::connect(socket, to.addr, to.addrlen) == 0, "no connection");
    Bytes bytes(random() % 300);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    (void)!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (i % 3 == 0) {
      ::close(socket);
    } else {
      open.push_back(socket);
    }
  }
  return open;
}

// Learns where the run listens, and opens connections that never say its key; keeps them open until the run is done.
void crowd(ControlPlane& control, int connections) {
  control.exchange("ucx key", Bytes(sizeof(std::uint64_t)));
  const auto listeners = control.exchange("ucx listeners", Bytes(sizeof(sockaddr_storage)));
  const SocketAddress place = unpack_address(listeners.front());
  UcxWorker worker;
  std::vector<ucp_ep_h> open(static_cast<std::size_t>(connections));
  worker.call([&] {
    for (ucp_ep_h& endpoint : open) {
      ucp_ep_params_t params{};
      params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
      params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
      params.sockaddr = place.ucx();
      params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
      params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
      check_ucx(ucp_ep_create(worker.handle(), &params, &endpoint), "connect");
    }
  });
  const std::vector<int> sockets = shout(place, connections);
  control.exchange("the crowd is there", {});
  control.exchange("done", {});
  for (const int socket : sockets) ::close(socket);
  worker.call([&] {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (ucp_ep_h endpoint : open) {
      void* request = ucp_ep_close_nbx(endpoint, &param);
      if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    }
  });
}

// Tells the others of a socket where nothing of UCX answers; returns what process 1 says of it.
void stay_away(ControlPlane& control, bool listens) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address{};
  reinterpret_cast<sockaddr_in&>(address) = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(sockaddr_in);
  test::require(::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0, "no port");
  if (listens) test::require(::listen(socket, 8) == 0, "cannot listen");
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  control.exchange("ucx key", Bytes(sizeof(std::uint64_t)));
  const auto* bytes = reinterpret_cast<const std::byte*>(&address);
  control.exchange("ucx listeners", Bytes(bytes, bytes + sizeof address));
  control.exchange("done", {});
  ::close(socket);
}

// What a process says that cannot reach process 0.
void check_unreachable(bool listens, const std::string& why) {
  test::SharedControl shared(2);
  const auto wrong = test::in_processes(2, [&](int process) {
    const auto control = shared.plane(process);
    if (process == 0) return stay_away(*control, listens);
    const Mesh mesh = test::a_rank_each(2);
    UcxTransport transport(*control, mesh);
    std::string error;
    try {
      sum_over_all(transport, process, 1, 2);
    } catch (const Error& lost) {
      if (lost.kind() == ErrorKind::peer_lost) error = lost.what();
    }
    control->exchange("done", {});
    test::require(error.find("process 0") == 0 && error.find(why) != std::string::npos, "it says: " + error);
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
}

}  // namespace

// The others connect, and send, as soon as they know where it listens.
TEST_CASE("a process that the others reach before it has gone on itself is connected all the same") {
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

TEST_CASE("a hundred connections of strangers do not keep the processes of a run from each other", "[hostile]") {
  constexpr int run = 3, stranger = 3;
  test::SharedControl shared(run + 1);
  const auto wrong = test::in_processes(run + 1, [&](int process) {
    const auto control = shared.plane(process);
    if (process == stranger) return crowd(*control, 100);
    const Mesh mesh = test::a_rank_each(run);
    UcxTransport transport(*control, mesh);
    // It takes in so many strangers only, and drops others for them.
    if (process == 0) test::require(test::wait_until([&] { return transport.dropped() > 0; }), "no crowd came");
    control->exchange("the crowd is there", {});
    sum_over_all(transport, process, 1, run);
    control->exchange("done", {});
  });
  for (const auto& line : wrong) UNSCOPED_INFO(line);
  CHECK(wrong.empty());
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

TEST_CASE("a process where nobody listens over UCX is named at once") {
  check_unreachable(false, "cannot be reached over UCX: its connection broke");
}

TEST_CASE("a process that takes a connection over UCX and says nothing is named", "[slow]") {
  check_unreachable(true, "it did not answer at 127.0.0.1:");
}
