// A thread that runs small tasks in the order in which they were added, and others once a condition holds.
#pragma once

#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

namespace pipetrain {

// Thread-safe. No task may throw.
class TaskThread {
 public:
  using Task = std::function<void()>;
  using Condition = std::function<bool()>;

  // `idle` is called about every `interval`.
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

  // Runs the task once the condition, which the thread polls, holds. Tasks of one line run in their order.
  void add_when(std::uint64_t line, Condition condition, Task task) {
    {
      const std::lock_guard lock(mutex_);
      lines_[line].push_back({std::move(condition), std::move(task)});
    }
    changed_.notify_all();
  }

  // Waits until all added tasks have run; returns false when that takes longer.
  bool drain(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return tasks_.empty() && lines_.empty() && !busy_; });
  }

 private:
  struct Waiting {
    Condition condition;
    Task task;
  };
  // The conditions wait for GPU work of milliseconds; a shorter sleep would cost a core.
  static constexpr std::chrono::microseconds asking_interval{20};

  Task idle_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::map<std::uint64_t, std::deque<Waiting>> lines_;  // none is empty
  bool busy_ = false, done_ = false;
  std::thread thread_;

  void run() {
    ::prctl(PR_SET_TIMERSLACK, 1000UL);  // ns; the default of 50 us exceeds the sleep
    auto last_idle = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!done_) {
      take_what_holds(lock);
      if (tasks_.empty()) {
        const bool asking = !lines_.empty();
        changed_.wait_for(lock, asking ? asking_interval : std::chrono::microseconds(interval_),
                          [&] { return done_ || !tasks_.empty() || (!asking && !lines_.empty()); });
      }
      if (done_) return;
      if (!tasks_.empty()) {
        const Task task = std::move(tasks_.front());
        tasks_.pop_front();
        call(lock, task);
      }
      if (const auto now = std::chrono::steady_clock::now(); now - last_idle >= interval_) {
        last_idle = now;
        call(lock, idle_);
      }
    }
  }

  void call(std::unique_lock<std::mutex>& lock, const Task& task) {
    busy_ = true;
    lock.unlock();
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }

  // The first of each line whose condition holds becomes a task. Only this thread removes tasks, so references stay valid.
  void take_what_holds(std::unique_lock<std::mutex>& lock) {
    for (auto line = lines_.begin(); line != lines_.end();) {
      const Waiting& first = line->second.front();
      lock.unlock();
      const bool holds = first.condition();
      lock.lock();
      if (!holds) {
        ++line;
        continue;
      }
      tasks_.push_back(std::move(line->second.front().task));
      line->second.pop_front();
      line = line->second.empty() ? lines_.erase(line) : std::next(line);
    }
  }
};

}  // namespace pipetrain
