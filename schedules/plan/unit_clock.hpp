// The as-soon-as-possible times of a plan's actions, where F = I = W = 1 and B = 2. Internal to schedules/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Times in units of F = I = W = 1, B = 2: [virtual stage * microbatches + microbatch].
struct UnitTimes {
  struct Microbatch {
    std::int32_t forward_launch = 0, forward_end = 0;
    std::int32_t backward_launch = 0, backward_end = 0;
    std::int32_t weight_end = 0;
  };
  std::vector<Microbatch> of;
};

// The place of an action in a braid, whose actions are launched together.
enum class InBraid { no, first, second };

class UnitClock {
 public:
  // Both outlive it. Notes the times of compute actions in `times`.
  UnitClock(const Plan& plan, UnitTimes& times);

  // The stage's next action runs. The first action of a braid stands in front of the second in its list.
  void run(int stage, const Action& action, InBraid part);
  // The stage has reached T, which begins when all its stages have.
  void reach_tied(int stage) { tied_at_ = std::max(tied_at_, at(stage).free_at); }
  // The stage's last action is one that the custom action waits for.
  void signal(int custom, int stage);

 private:
  struct Stage {
    std::int32_t free_at = 0;       // end of its last action
    std::int32_t launch = 0;        // of its last action
    std::int32_t previous_end = 0;  // end of the action before the last
  };

  Stage& at(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  UnitTimes::Microbatch& of(int v, const Action& action) const {
    return times_.of[static_cast<std::size_t>(v) * static_cast<std::size_t>(plan_.microbatches) +
                     static_cast<std::size_t>(action.microbatch)];
  }
  void note_inputs(const Action& action, int v, std::int32_t& launch, std::int32_t& start) const;

  const Plan& plan_;
  UnitTimes& times_;
  std::vector<Stage> stages_;
  std::int32_t tied_at_ = 0;             // when the last stage so far reached T
  std::vector<std::int32_t> signalled_;  // by custom action: the last end of what it waits for
};

}  // namespace pipetrain::schedules
