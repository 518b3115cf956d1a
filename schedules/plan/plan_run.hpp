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
#include "schedules/plan/unit_clock.hpp"

namespace pipetrain::schedules {

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
  // The reason why a stage cannot continue.
  struct Wait {
    std::string reason;
    int on_stage = 0;
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
  bool tied_partners_arrived(int stage);
  void advance(int stage, InBraid part = InBraid::no);
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
  std::optional<UnitClock> clock_;
  std::vector<Done> done_;
  std::vector<std::size_t> positions_;     // [stage], in its list
  std::vector<std::vector<bool>> braids_;  // [stage][position]; empty: the plan has none
  StageSet runnable_;
  std::vector<StageChunk> tied_places_;
  std::array<bool, 2> tied_arrivals_ = {};  // true where the stage has reached T, by position
  int norms_ = 0;
  CustomWaits waits_;
  std::vector<int> signals_;  // how many of the actions on other stages that a custom action waits for have ended, by number
};

}  // namespace pipetrain::schedules
