// The actions of the coming step that a stage launches before the running one is over: the forwards at the front of its list,
// with a preview (V) of the weights before the first of them where the verdict is not known yet. Internal to schedules/.
//
// Source of the idea: "optimizer post-validation" of Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241.
// They step the optimizer's states and reverse the step where the norm requires it; here only a copy that forwards read
// is written before the verdict, so taking work back changes no bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

class EarlyForwards {
 public:
  // The actions of a step that were launched before it began.
  struct Handover {
    std::size_t launched = 0;
    std::vector<Action> running;
  };
  // Begins a step. `next`: whether and when another step of training follows.
  Handover begin_step(NextStep next) {
    Handover begun{std::exchange(launched_, 0), std::exchange(running_, {})};
    comes_ = next != NextStep::unknown;
    previews_ = next == NextStep::at_once;
    previewed_ = false;
    return begun;
  }

  bool comes() const { return comes_; }
  // True when the stage may begin the coming step now; without the verdict, only where it previews.
  bool may_launch(bool verdict_given) const { return comes_ && taken_back_ == 0 && (previews_ || verdict_given); }
  bool any() const { return launched_ > 0; }
  std::size_t launched() const { return launched_; }  // from the front of the list
  bool has_preview() const { return previewed_; }

  void preview_launched() { previewed_ = true; }
  void launched(const Action& action) {
    ++launched_;
    running_.push_back(action);
  }
  // Returns false when the action is none of these.
  bool completed(const Action& action) {
    const auto found = std::find(running_.begin(), running_.end(), action);
    if (found == running_.end()) return false;
    running_.erase(found);
    if (taken_back_ > 0) --taken_back_;
    return true;
  }
  // The verdict is not the one that V assumed: all have to be launched again, once none of them runs any more.
  void take_back() {
    taken_back_ = running_.size();
    launched_ = 0;
  }
  bool waits_for_taken_back() const { return taken_back_ > 0; }

  const std::vector<Action>& running() const { return running_; }

 private:
  bool comes_ = false, previews_ = false, previewed_ = false;
  std::size_t launched_ = 0;
  std::vector<Action> running_;
  std::size_t taken_back_ = 0;  // how many of the running ones
};

}  // namespace pipetrain::schedules
