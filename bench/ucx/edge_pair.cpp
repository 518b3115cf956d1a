#include "bench/ucx/edge_pair.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <vector>

#include "actors/engine/caf.hpp"

namespace pipetrain::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Mesh two_processes() {
  MeshShape shape;
  shape.pp = 2;
  return Mesh(shape, deal_ranks(2, 2));
}

}  // namespace

std::uint16_t free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(descriptor);
  if (!bound) throw std::runtime_error("no port is free");
  return ntohs(address.sin_port);
}

EdgeEnd::EdgeEnd(int process, std::uint16_t port) : mesh_(two_processes()) {
  Rendezvous rendezvous;
  rendezvous.process = process;
  rendezvous.processes = 2;
  rendezvous.port = port;
  rendezvous.timeout = std::chrono::seconds(30);
  control_ = join_processes(rendezvous);
  transport_ = make_transport(TransportKind::ucx, *control_, mesh_);
  device_ = make_cpu_device(0, 1);
  pair_ = std::make_unique<EdgePair>(*control_, *transport_, *device_, 0, 1);
}

EdgeEnd::~EdgeEnd() {
  pair_.reset();
  transport_.reset();
  control_->leave();
}

double actor_latency(EdgePair& pair, std::size_t bytes, int rounds) {
  constexpr int warm_up = 100;
  caf::actor_system_config config;
  let_idle_threads_sleep(config);  // as the engine has it
  caf::actor_system system(config);
  std::promise<double> done;
  const int expected = warm_up + rounds + 1;
  const auto answerer = system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    auto times = std::make_shared<std::vector<double>>();
    auto last = std::make_shared<Clock::time_point>(Clock::now());
    return {[&, self, times, last](int slot) {
      pair.give_back(slot);
      times->push_back(seconds_since(*last));
      *last = Clock::now();
      const auto count = static_cast<int>(times->size());
      if (!pair.leads() || count < expected) pair.deliver(slot);
      if (count < expected) return;
      times->erase(times->begin(), times->begin() + warm_up);
      done.set_value(pair.leads() ? median(*times) / 2 : 0);
      self->quit();
    }};
  });
  pair.open(
      bytes, 1, [&](int slot) { caf::anon_send(answerer, slot); }, [](int) {});
  if (pair.leads()) pair.deliver(0);
  const double seconds = done.get_future().get();
  pair.meet();
  pair.close();
  return seconds;
}

}  // namespace pipetrain::bench
