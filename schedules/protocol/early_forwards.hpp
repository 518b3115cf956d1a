// What a stage launches of the coming step before the running one is over: the forwards that its list begins with, the first of
// them behind a preview (V) of the weights where the verdict is not known yet. Internal to schedules/.
//
// Source of the idea: "optimizer post-validation" of Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241. Theirs
// steps the optimizer's states and computes the step back where the norm asks for it; here nothing but a copy that forwards
// read is written before the verdict, so that what is taken back leaves no trace in any bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

class EarlyForwards {
 public:
  // A step begins, behind which another step of training comes or not. What has been launched of it already is handed over.
  struct Handover {
    std::size_t launched = 0;
    std::vector<Action> running;
  };
  Handover begin_step(NextStep next) {
    Handover begun{std::exchange(launched_, 0), std::exchange(running_, {})};
    comes_ = next != NextStep::unknown;
    previews_ = next == NextStep::at_once;
    previewed_ = false;
    return begun;
  }

  bool comes() const { return comes_; }
  // Without the verdict: whether the stage goes ahead of it.
  bool may_launch(bool verdict_given) const { return comes_ && taken_back_ == 0 && (previews_ || verdict_given); }
  bool any() const { return launched_ > 0; }
  std::size_t launched() const { return launched_; }  // from the front of the list
  bool has_preview() const { return previewed_; }

  void preview_launched() { previewed_ = true; }
  void launched(const Action& action) {
    ++launched_;
    running_.push_back(action);
  }
  // False when it is none of these.
  bool completed(const Action& action) {
    const auto found = std::find(running_.begin(), running_.end(), action);
    if (found == running_.end()) return false;
    running_.erase(found);
    if (taken_back_ > 0) --taken_back_;
    return true;
  }
  // The verdict is another than V took for granted: all have to be launched again, once none runs any more.
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
  std::size_t taken_back_ = 0;  // of those running
};

}  // namespace pipetrain::schedules
