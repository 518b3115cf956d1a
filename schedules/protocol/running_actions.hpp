// The actions of a stage that are launched and not completed. Internal to schedules/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedules/plan/action.hpp"

namespace pipetrain::schedules {

class RunningActions {
 public:
  // run_ahead: how many may run at once. A braid counts as one, and moves do not count, because they run beside compute.
  explicit RunningActions(int run_ahead) : run_ahead_(run_ahead) { running_.reserve(static_cast<std::size_t>(run_ahead)); }

  // Takes over those that were launched early, of a step that begins.
  void begin_step(std::vector<Action> early) { running_ = std::move(early); }
  bool has_room() const { return counted_ < run_ahead_; }
  void launch(const Action& action) {
    running_.push_back(action);
    if (!is_move(action.kind)) ++counted_;
  }
  // The first action of a braid is launched next; the second stands for both.
  void begin_braid(const Action& first) { braided_.push_back(first); }
  void join_braid() { --counted_; }
  // An action of the coming step, which EarlyForwards keeps.
  void launch_early() { ++counted_; }
  void complete_early() { --counted_; }
  // Returns false when the action is none of these.
  bool complete(const Action& action) {
    if (!take(running_, action)) return false;
    if (!take(braided_, action) && !is_move(action.kind)) --counted_;
    return true;
  }

  bool has(const Action& action) const { return std::find(running_.begin(), running_.end(), action) != running_.end(); }
  const std::vector<Action>& all() const { return running_; }  // of the running step, oldest first

 private:
  static bool take(std::vector<Action>& list, const Action& action) {
    const auto found = std::find(list.begin(), list.end(), action);
    if (found == list.end()) return false;
    list.erase(found);
    return true;
  }

  int run_ahead_;
  int counted_ = 0;  // of both steps
  std::vector<Action> running_;
  std::vector<Action> braided_;  // first actions of running braids
};

}  // namespace pipetrain::schedules
