#include "comm/ucx/ucx_traffic.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include "comm/shared_control.hpp"
#include "core/cpu_stream.hpp"

namespace pipetrain::test {
namespace {

// Numbers that a thread of the transport passes to one of the test.
class Numbers {
 public:
  void put(int a, int b) {
    const std::lock_guard lock(mutex_);
    numbers_.emplace_back(a, b);
    changed_.notify_one();
  }
  std::pair<int, int> take() {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return stopped_ || !numbers_.empty(); };
    require(changed_.wait_for(lock, std::chrono::seconds(30), ready), "nothing came for 30 s");
    require(!stopped_, "stopped");
    const auto first = numbers_.front();
    numbers_.pop_front();
    return first;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int, int>> numbers_;
  bool stopped_ = false;
};

std::mt19937_64 random_for(const TrafficEdge& edge, int microbatch, int lane) {
  return std::mt19937_64(edge.edge * 1000003ULL + static_cast<unsigned>(microbatch) * 131ULL + static_cast<unsigned>(lane));
}

Shape shape_of(const TrafficEdge& edge, int microbatch, int lane) {
  auto random = random_for(edge, microbatch, lane);
  return {std::uniform_int_distribution<std::int64_t>(0, edge.most_rows)(random), edge.cols};
}

float value_of(const TrafficEdge& edge, int microbatch, int lane, std::int64_t i) {
  return static_cast<float>((edge.edge * 7919ULL + static_cast<unsigned>(microbatch) * 104729ULL +
                             static_cast<unsigned>(lane) * 31ULL + static_cast<std::uint64_t>(i)) %
                            16777213ULL);
}

void fill(const Tensor& tensor, const TrafficEdge& edge, int microbatch, int lane) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.as<float>()[i] = value_of(edge, microbatch, lane, i);
}

void check(const Tensor& tensor, const TrafficEdge& edge, int microbatch, int lane) {
  require(tensor.shape == shape_of(edge, microbatch, lane), "another shape than was sent");
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    require(tensor.as<float>()[i] == value_of(edge, microbatch, lane, i), "other values than were sent");
  }
}

}  // namespace

struct Traffic::End {
  TrafficEdge edge;
  bool sends = false;
  std::vector<Buffer> memory;
  std::vector<SlotHandle> slots;
  Numbers numbers;  // slots and microbatches that arrived, or slots that are free
  std::unique_ptr<Stream> stream;
};

Traffic::Traffic(Transport& transport, int process, std::vector<TrafficEdge> edges)
    : transport_(transport), process_(process), device_(make_cpu_device(0, 1)) {
  for (const TrafficEdge& edge : edges) {
    if (edge.from != process && edge.to != process) continue;
    auto end = std::make_unique<End>();
    end->edge = edge;
    end->sends = edge.from == process;
    end->stream = device_->make_stream("traffic");
    ends_.push_back(std::move(end));
  }
  open();
}

Traffic::~Traffic() { transport_.close_edges(); }

void Traffic::open() {
  std::vector<EdgeReceiver> receivers;
  std::vector<EdgeSender> senders;
  for (auto& end : ends_) {
    const TrafficEdge& edge = end->edge;
    if (end->sends) {
      senders.push_back({edge.edge, edge.to, std::vector<Device*>(static_cast<std::size_t>(edge.lanes), device_.get()),
                         std::vector<int>(static_cast<std::size_t>(edge.lanes), 0),
                         [end = end.get()](int slot) { end->numbers.put(slot, 0); }});
      continue;
    }
    const std::size_t capacity = static_cast<std::size_t>(edge.most_rows * edge.cols) * sizeof(float);
    for (int i = 0; i < edge.slots; ++i) {
      auto slot = std::make_shared<Slot>();
      for (int lane = 0; lane < edge.lanes; ++lane) {
        end->memory.push_back(edge.shared ? transport_.slot_memory(*device_, capacity, "test")
                                          : device_->allocate(capacity, "test"));
        Lane made;
        made.tensor = {end->memory.back().data(), {edge.most_rows, edge.cols}, DType::f32};
        made.capacity = capacity;
        made.ready = device_->make_event();
        made.free = device_->make_event();
        slot->lanes.push_back(std::move(made));
      }
      end->slots.push_back(std::move(slot));
    }
    receivers.push_back({edge.edge, edge.from, end->slots,
                         [end = end.get()](int slot, int microbatch) { end->numbers.put(slot, microbatch); }});
  }
  transport_.open_edges(std::move(receivers), std::move(senders));
}

// As a stage does, passes the slot on while the stream still writes it.
void Traffic::send(End& end) {
  const TrafficEdge& edge = end.edge;
  for (int microbatch = 0; microbatch < edge.microbatches; ++microbatch) {
    const int number = end.numbers.take().first;
    Slot& slot = *transport_.mirrors(edge.edge).at(static_cast<std::size_t>(number));
    for (int lane = 0; lane < edge.lanes; ++lane) {
      Lane& place = slot.lanes[static_cast<std::size_t>(lane)];
      require(place.rank == -1, "a mirror's lane must be written directly");
      place.tensor.shape = shape_of(edge, microbatch, lane);
      const Tensor tensor = place.tensor;
      cpu_stream(*end.stream).enqueue([=] { fill(tensor, edge, microbatch, lane); });
      mark_ready(*end.stream, slot, static_cast<std::size_t>(lane));
    }
    transport_.deliver(edge.edge, number, microbatch);
  }
  for (int slot = 0; slot < edge.slots; ++slot) end.numbers.take();
}

// Returns the slot while the stream still reads it.
void Traffic::receive(End& end) {
  const TrafficEdge& edge = end.edge;
  for (int slot = 0; slot < edge.slots; ++slot) transport_.give_credit(edge.edge, slot);
  for (int expected = 0; expected < edge.microbatches; ++expected) {
    const auto [number, microbatch] = end.numbers.take();
    Slot& slot = *end.slots.at(static_cast<std::size_t>(number));
    for (int lane = 0; lane < edge.lanes; ++lane) {
      wait_until_ready(*end.stream, slot, static_cast<std::size_t>(lane));
      const Tensor tensor = slot.lanes[static_cast<std::size_t>(lane)].tensor;
      cpu_stream(*end.stream).enqueue([=, sent = microbatch] { check(tensor, edge, sent, lane); });
      mark_free(*end.stream, slot, static_cast<std::size_t>(lane));
    }
    transport_.give_credit(edge.edge, number);
  }
  end.stream->synchronize();
}

void Traffic::stop() {
  for (auto& end : ends_) end->numbers.stop();
}

void Traffic::run() {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(ends_.size());
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    threads.emplace_back([this, i, &failures] {
      try {
        if (ends_[i]->sends) {
          send(*ends_[i]);
        } else {
          receive(*ends_[i]);
        }
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace pipetrain::test
