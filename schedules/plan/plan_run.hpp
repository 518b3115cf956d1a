// Runs a plan's lists against each other by counting alone, as fast as data, slots and collectives allow. With fixed lists the
// outcome does not depend on the order of events, so one run decides about deadlock for all speeds. Internal to schedules/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/plan/custom_waits.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/plan_needs.hpp"
#include "schedules/plan/stage_set.hpp"

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

class PlanRun {
 public:
  // Without `needs` the slots are unlimited. With `times` it also notes the as-soon-as-possible times. The lists must
  // have passed check_lists().
  PlanRun(const Plan& plan, const std::vector<StageNeeds>* needs, const SlotLife& life, UnitTimes* times);
  // Throws InvalidPlan naming the circle of waiting stages when it cannot reach the end.
  void run();

 private:
  // The number of microbatches that each row of a virtual stage has done; they run in order.
  struct Done {
    std::int32_t forwards = 0, backwards = 0, weights = 0;
  };
  struct Stage {
    std::size_t position = 0;
    std::int32_t free_at = 0;       // end of its last action
    std::int32_t launch = 0;        // of its last action
    std::int32_t previous_end = 0;  // end of the action before the last
  };
  // The reason why a stage cannot continue.
  struct Wait {
    std::string reason;
    int on_stage = 0;
  };

  struct TiedArrival {
    bool arrived = false;
    std::int32_t free_at = 0;  // of the stage when it reached T
  };

  const Action& head(int stage) const;
  bool is_finished(int stage) const;
  int virtual_stage(int stage, const Action& action) const { return plan_.placement.virtual_stage(stage, action.chunk); }
  Done& done(int v) { return done_[static_cast<std::size_t>(v)]; }
  const Done& done(int v) const { return done_[static_cast<std::size_t>(v)]; }
  std::int32_t freed(const ActionKind& last_reader, int v) const;
  bool has_activation_slot(int v, int ahead) const;
  bool has_gradient_slot(int v) const;
  // True when a braid begins at the stage's next action.
  bool at_braid(int stage) const;
  bool can_run_next(int stage);
  // `ahead`: slots to leave free, because a braid's first action takes them.
  bool can_run(int stage, const Action& action, int ahead = 0);
  void advance_braid(int stage);
  bool tied_partners_arrived(int stage);
  void advance(int stage);
  void note_times(int stage, const Action& action, int v);
  void note_inputs(const Action& action, int v, std::int32_t& launch, std::int32_t& start) const;
  const Action& waiting(int stage) const;
  void signal(int stage, const Action& action);
  void wake(int stage);
  void wake_neighbours(int v);
  Wait why_waiting(int stage) const;
  Wait why_custom_waits(int stage, const Action& action) const;
  [[noreturn]] void report_deadlock() const;

  const Plan& plan_;
  const std::vector<StageNeeds>* needs_;
  SlotLife life_;
  UnitTimes* times_;
  std::vector<Done> done_;
  std::vector<Stage> stages_;
  std::vector<std::vector<bool>> braids_;  // [stage][position]; empty: the plan has none
  bool in_braid_ = false;                  // noting the second action of a braid
  StageSet runnable_;
  std::vector<StageChunk> tied_places_;
  std::array<TiedArrival, 2> tied_arrivals_;  // by position
  int norms_ = 0;
  // The progress of what custom actions wait for on other stages, by number: how many of these have ended, and when.
  struct Signals {
    int count = 0;
    std::int32_t last_end = 0;
  };
  CustomWaits waits_;
  std::vector<Signals> signals_;
};

}  // namespace pipetrain::schedules
