#include "bench/ucx/edge_pair.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <utility>

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

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Slots that a thread of the transport hands to the one that measures.
class SlotQueue {
 public:
  void put(int slot) {
    const std::lock_guard lock(mutex_);
    slots_.push_back(slot);
    changed_.notify_one();
  }
  int take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !slots_.empty(); })) {
      throw std::runtime_error("no message came for 60 s");
    }
    const int slot = slots_.front();
    slots_.pop_front();
    return slot;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> slots_;
};

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

EdgeEnd::EdgeEnd(int process, std::uint16_t port) : process_(process), mesh_(two_processes()), device_(make_cpu_device(0, 1)) {
  Rendezvous rendezvous;
  rendezvous.process = process;
  rendezvous.processes = 2;
  rendezvous.port = port;
  rendezvous.timeout = std::chrono::seconds(30);
  control_ = join_processes(rendezvous);
  transport_ = make_transport(TransportKind::ucx, *control_, mesh_);
}

EdgeEnd::~EdgeEnd() {
  close();
  transport_.reset();
  control_->leave();
}

void EdgeEnd::open(std::size_t bytes, int slots, std::function<void(int)> arrived, std::function<void(int)> credit) {
  EdgeReceiver receiver;
  receiver.edge = static_cast<EdgeId>(1 - process_);
  receiver.from = 1 - process_;
  for (int i = 0; i < slots; ++i) {
    memory_.push_back(device_->allocate(bytes, "bench"));
    std::memset(memory_.back().data(), 0, bytes);
    Lane lane;
    lane.tensor = {memory_.back().data(), {static_cast<std::int64_t>(bytes / sizeof(float))}, DType::f32};
    lane.capacity = bytes;
    receiver.slots.push_back(std::make_shared<Slot>());
    receiver.slots.back()->lanes.push_back(std::move(lane));
  }
  receiver.arrived = [arrived = std::move(arrived)](int slot, int) { arrived(slot); };
  EdgeSender sender;
  sender.edge = static_cast<EdgeId>(process_);
  sender.to = 1 - process_;
  sender.devices = {device_.get()};
  sender.ranks = {process_};
  sender.credit = std::move(credit);
  transport_->open_edges({std::move(receiver)}, {std::move(sender)});
  for (const auto& mirror : transport_->mirrors(static_cast<EdgeId>(process_))) {
    std::memset(mirror->lanes[0].tensor.data, 1, bytes);
  }
  meet();
}

void EdgeEnd::close() {
  transport_->close_edges();
  memory_.clear();
}

void EdgeEnd::meet() { control_->exchange("bench", {}); }

double bytes_per_second(EdgeEnd& end, int process, std::size_t bytes, int messages) {
  constexpr int slots = 4;
  SlotQueue free, filled;
  end.open(
      bytes, slots, [&](int slot) { filled.put(slot); }, [&](int slot) { free.put(slot); });
  double rate = 0;
  constexpr int warm_up = 8;
  if (process == 0) {
    for (int slot = 0; slot < slots; ++slot) free.put(slot);
    Clock::time_point start;
    for (int i = 0; i < warm_up + messages; ++i) {
      if (i == warm_up) start = Clock::now();
      end.deliver(free.take());
    }
    for (int slot = 0; slot < slots; ++slot) free.take();
    rate = static_cast<double>(bytes) * messages / seconds_since(start);
  } else {
    for (int i = 0; i < warm_up + messages; ++i) end.give_back(filled.take());
  }
  end.meet();
  end.close();
  return rate;
}

double thread_latency(EdgeEnd& end, int process, std::size_t bytes, int rounds) {
  SlotQueue filled;
  end.open(
      bytes, 1, [&](int slot) { filled.put(slot); }, [](int) {});
  const auto answer = [&] {
    const int slot = filled.take();
    end.give_back(slot);
    end.deliver(slot);
  };
  constexpr int warm_up = 100;
  double seconds = 0;
  if (process == 0) {
    end.deliver(0);
    std::vector<double> times;
    for (int i = 0; i < warm_up + rounds; ++i) {
      const auto start = Clock::now();
      answer();
      if (i >= warm_up) times.push_back(seconds_since(start));
    }
    seconds = median(times) / 2;
    filled.take();
  } else {
    for (int i = 0; i < warm_up + rounds + 1; ++i) answer();
  }
  end.meet();
  end.close();
  return seconds;
}

double actor_latency(EdgeEnd& end, int process, std::size_t bytes, int rounds) {
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
      end.give_back(slot);
      times->push_back(seconds_since(*last));
      *last = Clock::now();
      const auto count = static_cast<int>(times->size());
      if (process == 1 || count < expected) end.deliver(slot);
      if (count < expected) return;
      times->erase(times->begin(), times->begin() + warm_up);
      done.set_value(process == 0 ? median(*times) / 2 : 0);
      self->quit();
    }};
  });
  end.open(
      bytes, 1, [&](int slot) { caf::anon_send(answerer, slot); }, [](int) {});
  if (process == 0) end.deliver(0);
  const double seconds = done.get_future().get();
  end.meet();
  end.close();
  return seconds;
}

}  // namespace pipetrain::bench
