#include "comm/cuda/cuda_shared_event.hpp"

#include <chrono>
#include <system_error>

#include "core/cuda/cuda_driver.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::milliseconds release_interval{5};

}  // namespace

std::atomic<std::uint32_t>& SharedEvent::value() const {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(memory_->host() + offset_);
}

void SharedEvent::release() noexcept {
  constexpr std::uint32_t far_ahead = 1U << 30;
  released_ = true;
  value() = reached_ + far_ahead;
}

bool SharedEvent::query() const {
  if (refused_ || released_) return true;
  return static_cast<std::int32_t>(value().load() - reached_.load()) >= 0;
}

void SharedEvent::synchronize() const {
  while (!query()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

cudaError_t SharedEvent::record_on(cudaStream_t stream, int) {
  const cudaError_t status = enqueue_write(stream, memory_->device() + offset_, ++reached_);
  refused_ = status != cudaSuccess;
  return status;
}

cudaError_t SharedEvent::wait_on(cudaStream_t stream) const {
  const std::uint32_t record = reached_;
  if (record == 0 || released_) return cudaSuccess;
  return enqueue_wait_until(stream, memory_->device() + offset_, record);
}

EventReleaser::EventReleaser(std::vector<std::shared_ptr<SharedEvent>> events) : events_(std::move(events)) {
  for (const auto& event : events_) event->release();
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
  }
}

EventReleaser::~EventReleaser() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EventReleaser::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, release_interval, [this] { return done_; })) {
    for (const auto& event : events_) event->release();
  }
}

}  // namespace pipetrain
