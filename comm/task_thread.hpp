// A thread that does small pieces of work in the order in which they were given to it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace pipetrain {

// Thread-safe.
class TaskThread {
 public:
  using Task = std::function<void()>;

  // `idle` is called about every `interval` while there is nothing to do. Tasks and `idle` must not throw.
  TaskThread(Task idle, std::chrono::milliseconds interval)
      : idle_(std::move(idle)), interval_(interval), thread_([this] { run(); }) {}
  ~TaskThread() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void add(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
  }

  // Waits until all that was added has been done; false when that takes longer.
  bool drain(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return tasks_.empty() && !busy_; });
  }

 private:
  Task idle_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false, done_ = false;
  std::thread thread_;

  void run() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      if (!changed_.wait_for(lock, interval_, [this] { return done_ || !tasks_.empty(); })) {
        lock.unlock();
        idle_();
        lock.lock();
        continue;
      }
      if (done_) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      lock.unlock();
      task();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }
};

}  // namespace pipetrain
