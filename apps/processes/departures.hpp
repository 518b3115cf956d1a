// The processes of an elastic run that end on purpose: who has asked to leave, who is leaving, and when this process may end.
// Processes are named by their numbers in the run's first membership.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace pipetrain {

// Thread-safe.
class Departures {
 public:
  // This process wants to leave.
  void ask() {
    const std::lock_guard lock(mutex_);
    asks_ = true;
  }
  bool asks() const {
    const std::lock_guard lock(mutex_);
    return asks_;
  }

  // In process 0: another process wants to leave.
  void asked(int process) {
    const std::lock_guard lock(mutex_);
    asking_.insert(process);
  }
  bool has_asked(int process) const {
    const std::lock_guard lock(mutex_);
    return asking_.contains(process);
  }

  // Process 0 has announced that this process leaves.
  void announce(int process) {
    const std::lock_guard lock(mutex_);
    leaving_ = process;
  }
  // A membership with this number, counted from 1, begins, without the process whose leave was announced.
  void begin_membership(int number) {
    const std::lock_guard lock(mutex_);
    left_[number] = std::exchange(leaving_, std::nullopt);
  }
  // Returns the process that left on purpose before this membership, if one did.
  std::optional<int> left_before(int membership) const {
    const std::lock_guard lock(mutex_);
    const auto left = left_.find(membership);
    return left == left_.end() ? std::nullopt : left->second;
  }

  // Called when this process may end. The handler must not return.
  void on_leave(std::function<void()> handler) {
    const std::lock_guard lock(mutex_);
    leave_ = std::move(handler);
  }
  void leave() const {
    std::function<void()> handler;
    {
      const std::lock_guard lock(mutex_);
      handler = leave_;
    }
    if (handler) handler();
  }

 private:
  mutable std::mutex mutex_;
  bool asks_ = false;
  std::set<int> asking_;
  std::optional<int> leaving_;
  std::map<int, std::optional<int>> left_;  // by membership, counted from 1
  std::function<void()> leave_;
};

}  // namespace pipetrain
