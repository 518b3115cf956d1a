#include "bench/ucx/edge_pair.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "actors/engine/caf.hpp"
#include "bench/ucx/message.hpp"

namespace pipetrain::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Mesh two_processes() {
  MeshShape shape;
  shape.pp = 2;
  return Mesh(shape, deal_ranks(2, 2));
}

// Slots that one thread passes to another.
class Hand {
 public:
  void put(int slot) {
    const std::lock_guard lock(mutex_);
    slots_.push_back(slot);
    changed_.notify_one();
  }
  int take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !slots_.empty(); });
    const int slot = slots_.front();
    slots_.pop_front();
    return slot;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> slots_;
};

// Returns the rate at which `write` fills one slot after the other, as they become free.
template <class Take, class Write>
double write_rate(std::size_t bytes, int messages, const Take& take, const Write& write) {
  Clock::time_point start;
  for (int i = 0; i < warm_up + messages; ++i) {
    if (i == warm_up) start = Clock::now();
    write(take());
  }
  for (int slot = 0; slot < buffers; ++slot) take();
  return static_cast<double>(bytes) * messages / seconds_since(start);
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
  constexpr int unmeasured = 100;
  caf::actor_system_config config;
  let_idle_threads_sleep(config);  // as the engine does
  caf::actor_system system(config);
  std::promise<double> done;
  const int expected = unmeasured + rounds + 1;
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
      times->erase(times->begin(), times->begin() + unmeasured);
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

double written_and_read(EdgePair& pair, std::size_t bytes, int messages) {
  SlotQueue free, filled;
  pair.open(
      bytes, buffers, [&](int slot) { filled.put(slot); }, [&](int slot) { free.put(slot); });
  double rate = 0;
  if (pair.leads()) {
    for (int slot = 0; slot < buffers; ++slot) free.put(slot);
    rate = write_rate(
        bytes, messages, [&] { return free.take(pair); },
        [&](int slot) {
          write_message(pair.outgoing(slot).data, bytes, slot);
          pair.deliver(slot);
        });
  } else {
    for (int i = 0; i < warm_up + messages; ++i) {
      const int slot = filled.take(pair);
      read_message(pair.incoming(slot).data, bytes);
      pair.give_back(slot);
    }
  }
  pair.meet();
  pair.close();
  return rate;
}

double written_and_read_in_one_process(std::size_t bytes, int messages) {
  std::vector<std::vector<std::uint64_t>> memory(buffers, std::vector<std::uint64_t>(bytes / sizeof(std::uint64_t)));
  const auto data = [&](int slot) { return memory[static_cast<std::size_t>(slot)].data(); };
  Hand free, filled;
  for (int slot = 0; slot < buffers; ++slot) free.put(slot);
  std::thread reader([&] {
    for (int i = 0; i < warm_up + messages; ++i) {
      const int slot = filled.take();
      read_message(data(slot), bytes);
      free.put(slot);
    }
  });
  const double rate = write_rate(
      bytes, messages, [&] { return free.take(); },
      [&](int slot) {
        write_message(data(slot), bytes, slot);
        filled.put(slot);
      });
  reader.join();
  return rate;
}

double copied_in_turns(std::size_t bytes, int copies) {
  std::vector<std::vector<char>> from(buffers, std::vector<char>(bytes, 1)), to(buffers, std::vector<char>(bytes, 2));
  const auto start = Clock::now();
  for (int i = 0; i < copies; ++i) {
    const auto slot = static_cast<std::size_t>(i % buffers);
    std::memcpy(to[slot].data(), from[slot].data(), bytes);
    asm volatile("" : : "r"(to[slot].data()) : "memory");
  }
  return static_cast<double>(bytes) * copies / seconds_since(start);
}

}  // namespace pipetrain::bench
