#include "bindings/guest/action_threads.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {

namespace {

thread_local const ActionThreads* working_for = nullptr;  // the owner of this thread

}  // namespace

ActionThreads::~ActionThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ready_or_end_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ActionThreads::join(Lane&) {
  const std::lock_guard lock(mutex_);
  threads_.emplace_back([this] { work(); });
}

bool ActionThreads::claim_wake() {
  if (waking_ || asleep_ == 0 || ready_.empty()) return false;
  return waking_ = true;
}

void ActionThreads::add(Lane& lane, const Launch& launch) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    lane.waiting_.push_back(launch);
    if (std::exchange(lane.busy_, true)) return;
    ready_.push_back(&lane);
    wake = working_for != this && claim_wake();  // a thread of this object looks for more work when it has finished
  }
  if (wake) ready_or_end_.notify_one();
}

void ActionThreads::look_again() { ready_or_end_.notify_one(); }

void ActionThreads::leave(Lane& lane) {
  std::deque<Launch> forgotten;  // their slots may be the guest's, which must not be freed under the lock
  std::unique_lock lock(mutex_);
  forgotten.swap(lane.waiting_);
  if (const auto found = std::find(ready_.begin(), ready_.end(), &lane); found != ready_.end()) {
    ready_.erase(found);
    lane.busy_ = false;
  }
  lane.leaves_ = true;
  idle_.wait(lock, [&] { return !lane.busy_; });
}

void ActionThreads::work() {
  working_for = this;
  std::unique_lock lock(mutex_);
  while (true) {
    while (ready_.empty() && !ends_) {
      ++asleep_;
      ready_or_end_.wait(lock);
      --asleep_;
      waking_ = false;
    }
    if (ends_) return;
    Lane& lane = *ready_.front();
    ready_.pop_front();
    act(lane, lock);
    if (!lane.waiting_.empty()) {
      ready_.push_back(&lane);
    } else {
      lane.busy_ = false;
      if (lane.leaves_) idle_.notify_all();
    }
  }
}

void ActionThreads::act(Lane& lane, std::unique_lock<std::mutex>& lock) {
  {
    const Launch launch = std::move(lane.waiting_.front());
    lane.waiting_.pop_front();
    const bool wake = claim_wake();
    lock.unlock();
    if (wake) ready_or_end_.notify_one();
    lane.act(launch);
  }
  lock.lock();
}

}  // namespace pipetrain
