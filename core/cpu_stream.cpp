#include "core/cpu_stream.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include "core/cpu_device.hpp"

namespace pipetrain {
namespace {

// Counts records and completions; a waiter waits until the completions reach the records it saw.
class CpuEvent : public Event {
 public:
  bool query() const override {
    return completed_.load(std::memory_order_acquire) >= recorded_.load(std::memory_order_acquire);
  }
  void synchronize() const override { wait_for(latest()); }

  std::uint64_t latest() const { return recorded_.load(std::memory_order_acquire); }
  std::uint64_t begin_record() { return recorded_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  // A waiter may destroy the event as soon as the count is stored: the lock keeps the event until complete() has finished.
  ~CpuEvent() override { const std::lock_guard lock(mutex_); }

  void complete(std::uint64_t record) {
    std::vector<Waiting> due;
    {
      const std::lock_guard lock(mutex_);
      completed_at_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
      completed_.store(record, std::memory_order_release);
      completed_.notify_all();
      if (waiting_.empty()) return;
      const auto later = std::stable_partition(waiting_.begin(), waiting_.end(),
                                               [record](const Waiting& one) { return one.record <= record; });
      due.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(later));
      waiting_.erase(waiting_.begin(), later);
    }
    for (const Waiting& one : due) one.callback();
  }
  void when_complete(std::function<void()> callback) const {
    {
      const std::lock_guard lock(mutex_);
      if (!query()) {
        waiting_.push_back({latest(), std::move(callback)});
        return;
      }
    }
    callback();
  }
  void wait_for(std::uint64_t record) const {
    for (auto done = completed_.load(std::memory_order_acquire); done < record;
         done = completed_.load(std::memory_order_acquire)) {
      completed_.wait(done, std::memory_order_acquire);
    }
  }
  std::chrono::steady_clock::time_point completed_at() const { return completed_at_.load(std::memory_order_relaxed); }

 private:
  struct Waiting {
    std::uint64_t record;
    std::function<void()> callback;
  };

  mutable std::mutex mutex_;
  mutable std::vector<Waiting> waiting_;
  std::atomic<std::uint64_t> recorded_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::chrono::steady_clock::time_point> completed_at_{};
};

class ThreadStream : public CpuStream {
 public:
  ThreadStream(CpuDevice& device, const std::string& name) : device_(device), thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }

  ~ThreadStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  Device& device() const override { return device_; }

  void enqueue(std::function<void()> work) override { push({std::move(work), false}); }

  void parallel_for(std::int64_t tiles, const std::function<void(std::int64_t)>& tile) override {
    device_.tiles().run(tiles, tile);
  }

  void record(Event& event) override {
    auto& cpu_event = static_cast<CpuEvent&>(event);
    const std::uint64_t record = cpu_event.begin_record();
    push({[&cpu_event, record] { cpu_event.complete(record); }, true});
  }

  void wait(const Event& event) override {
    const auto& cpu_event = static_cast<const CpuEvent&>(event);
    if (cpu_event.query()) return;
    // Waits even after a failure: a failing run still records its events, and without the wait the streams would lose their
    // order.
    push({[&cpu_event, record = cpu_event.latest()] { cpu_event.wait_for(record); }, true});
  }

  void host_callback(std::function<void()> callback) override { push({std::move(callback), true}); }

  void copy(void* target, const void* source, std::size_t bytes) override {
    enqueue([=] { std::memcpy(target, source, bytes); });
  }

  void zero(const Tensor& tensor) override {
    // A single thread does not use the full bandwidth for new memory.
    enqueue([this, tensor] {
      constexpr std::size_t piece = std::size_t{8} << 20;
      const std::size_t bytes = tensor.bytes();
      parallel_for(static_cast<std::int64_t>((bytes + piece - 1) / piece), [&](std::int64_t tile) {
        const std::size_t begin = static_cast<std::size_t>(tile) * piece;
        std::memset(static_cast<char*>(tensor.data) + begin, 0, std::min(piece, bytes - begin));
      });
    });
  }

  void synchronize() override {
    CpuEvent done;
    record(done);
    done.synchronize();
    if (auto cause = failure()) std::rethrow_exception(cause);
  }

  std::exception_ptr failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void fail(std::exception_ptr cause) override {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(cause);
    failed_ = true;
  }

 private:
  struct Item {
    std::function<void()> work;
    bool always;  // runs also after a failure
  };

  void push(Item item) {
    bool was_idle;
    {
      const std::lock_guard lock(mutex_);
      was_idle = queue_.empty();
      queue_.push_back(std::move(item));
    }
    if (was_idle) changed_.notify_one();
  }

  void run() {
    std::vector<Item> batch;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        batch.swap(queue_);
      }
      for (auto& item : batch) {
        if (item.always || !failed_) run_one(item);
      }
      batch.clear();
    }
  }

  void run_one(Item& item) {
    try {
      item.work();
    } catch (...) {
      fail(std::current_exception());
    }
  }

  CpuDevice& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> queue_;
  bool stop_ = false;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace

CpuStream& cpu_stream(Stream& stream) { return static_cast<CpuStream&>(stream); }

void when_complete(const Event& event, std::function<void()> callback) {
  static_cast<const CpuEvent&>(event).when_complete(std::move(callback));
}

std::unique_ptr<Stream> CpuDevice::make_stream(const std::string& name) { return std::make_unique<ThreadStream>(*this, name); }

std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(); }

std::int64_t CpuDevice::steady_nanoseconds(const Event& event) const {
  return std::chrono::nanoseconds(static_cast<const CpuEvent&>(event).completed_at().time_since_epoch()).count();
}

double CpuDevice::seconds_between(const Event& begin, const Event& end) const {
  return static_cast<double>(steady_nanoseconds(end) - steady_nanoseconds(begin)) / 1e9;
}

}  // namespace pipetrain
