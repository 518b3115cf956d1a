#include "comm/edge_pair.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr EdgeId forth = 0, back = 1;

}  // namespace

EdgePair::EdgePair(ControlPlane& control, Transport& transport, Device& device, int first, int second)
    : control_(control), transport_(transport), device_(device), first_(first), second_(second) {
  if (device_.id().kind == DeviceKind::cuda) stream_ = device_.make_stream("measure");
  const auto lost = [this](int process, const std::string& why) { lose(process, why); };
  control_.on_lost(lost);
  transport_.on_lost(lost);
}

EdgePair::~EdgePair() {
  transport_.on_lost({});
  control_.on_lost({});
  close();
}

// Notes the lost process, and ends the waits of a GPU for it.
void EdgePair::lose(int process, const std::string& why) {
  const std::string text = to_string(control_.info(process)) + " is gone: " + why;
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = text;
  }
  if (on_gpu()) transport_.abort(std::make_exception_ptr(Error(ErrorKind::peer_lost, text)));
}

void EdgePair::check() const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw Error(ErrorKind::peer_lost, lost_);
}

SlotHandle EdgePair::make_slot(std::size_t bytes) {
  const std::string what = "what is measured";
  memory_.push_back(where_ == SlotMemory::transport ? transport_.slot_memory(device_, bytes, what)
                                                    : device_.allocate(bytes, what));
  Lane lane;
  lane.tensor = {memory_.back().data(), {static_cast<std::int64_t>(bytes / sizeof(float))}, DType::f32};
  lane.capacity = bytes;
  lane.rank = control_.process();
  if (on_gpu()) {
    lane.ready = device_.make_event();
    lane.free = device_.make_event();
  } else {
    std::memset(memory_.back().data(), 0, bytes);
  }
  auto slot = std::make_shared<Slot>();
  slot->lanes.push_back(std::move(lane));
  return slot;
}

void EdgePair::open(std::size_t bytes, int slots, std::function<void(int)> arrived, std::function<void(int)> credit) {
  if (!takes_part()) {
    transport_.open_edges({}, {});
    return meet();
  }
  for (int i = 0; i < slots; ++i) slots_.push_back(make_slot(bytes));
  EdgeReceiver receiver;
  receiver.edge = leads() ? back : forth;
  receiver.from = other();
  receiver.slots = slots_;
  receiver.arrived = [arrived = std::move(arrived)](int slot, int) { arrived(slot); };
  EdgeSender sender;
  sender.edge = leads() ? forth : back;
  sender.to = other();
  sender.devices = {&device_};
  sender.ranks = {control_.process()};
  sender.credit = std::move(credit);
  const EdgeId out = sender.edge;
  transport_.open_edges({std::move(receiver)}, {std::move(sender)});
  if (on_gpu()) {
    link_ = make_link(transport_.link(control_.process(), other()), {&device_, bytes, "what is measured"});
  } else {
    for (const auto& mirror : transport_.mirrors(out)) std::memset(mirror->lanes[0].tensor.data, 1, bytes);
  }
  meet();
}

void EdgePair::close() noexcept {
  transport_.close_edges();
  link_.reset();
  slots_.clear();
  memory_.clear();
}

void EdgePair::meet() { control_.exchange("measuring", {}); }

const Tensor& EdgePair::outgoing(int slot) const {
  return transport_.mirrors(leads() ? forth : back).at(static_cast<std::size_t>(slot))->lanes[0].tensor;
}

void EdgePair::deliver(int slot) {
  const EdgeId out = leads() ? forth : back;
  if (on_gpu()) {
    Lane& lane = transport_.mirrors(out).at(static_cast<std::size_t>(slot))->lanes[0];
    link_->begin(*stream_, lane);
    link_->send(*stream_, lane);
  }
  transport_.deliver(out, slot, 0);
}

void EdgePair::give_back(int slot) {
  if (on_gpu()) {
    const Slot& came = *slots_[static_cast<std::size_t>(slot)];
    wait_until_ready(*stream_, came, 0);
    mark_free(*stream_, came, 0);
  }
  transport_.give_credit(leads() ? back : forth, slot);
}

// The receiver records a mirror's `free` once the message has arrived, NCCL once it has been sent.
void EdgePair::settle() {
  if (!link_) return;
  stream_->synchronize();
  for (const auto& mirror : transport_.mirrors(leads() ? forth : back)) mirror->lanes[0].free->synchronize();
}

void SlotQueue::put(int slot) {
  const std::lock_guard lock(mutex_);
  slots_.push_back(slot);
  changed_.notify_one();
}

int SlotQueue::take(const EdgePair& pair) {
  constexpr std::chrono::milliseconds look{100};
  const auto limit = Clock::now() + std::chrono::minutes(1);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, look, [this] { return !slots_.empty(); })) {
    pair.check();
    if (Clock::now() > limit)
      throw Error(ErrorKind::peer_lost, "no message came from the other process for a minute while their link was measured");
  }
  const int slot = slots_.front();
  slots_.pop_front();
  return slot;
}

double bytes_per_second(EdgePair& pair, std::size_t bytes, int messages) {
  constexpr int slots = 4, warm_up = 8;
  SlotQueue free, filled;
  pair.open(
      bytes, slots, [&](int slot) { filled.put(slot); }, [&](int slot) { free.put(slot); });
  double rate = 0;
  if (pair.leads()) {
    for (int slot = 0; slot < slots; ++slot) free.put(slot);
    Clock::time_point start;
    for (int i = 0; i < warm_up + messages; ++i) {
      if (i == warm_up) {
        pair.settle();
        start = Clock::now();
      }
      pair.deliver(free.take(pair));
    }
    for (int slot = 0; slot < slots; ++slot) free.take(pair);
    pair.settle();
    rate = static_cast<double>(bytes) * messages / seconds_since(start);
  } else if (pair.takes_part()) {
    for (int i = 0; i < warm_up + messages; ++i) pair.give_back(filled.take(pair));
    pair.settle();
  }
  pair.meet();
  pair.close();
  return rate;
}

double thread_latency(EdgePair& pair, std::size_t bytes, int rounds) {
  constexpr int warm_up = 100;
  SlotQueue filled;
  pair.open(
      bytes, 1, [&](int slot) { filled.put(slot); }, [](int) {});
  const auto answer = [&] {
    const int slot = filled.take(pair);
    pair.give_back(slot);
    pair.deliver(slot);
  };
  double seconds = 0;
  if (pair.leads()) {
    pair.deliver(0);
    std::vector<double> times;
    for (int i = 0; i < warm_up + rounds; ++i) {
      const auto start = Clock::now();
      answer();
      if (i >= warm_up) times.push_back(seconds_since(start));
    }
    seconds = median(times) / 2;
    filled.take(pair);
  } else if (pair.takes_part()) {
    for (int i = 0; i < warm_up + rounds + 1; ++i) answer();
  }
  pair.settle();
  pair.meet();
  pair.close();
  return seconds;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace pipetrain
