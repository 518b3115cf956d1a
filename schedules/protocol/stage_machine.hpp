// The implementation of StageProtocol. Internal to schedules/: stage_protocol.cpp decides, stage_machine_text.cpp
// describes the state for people.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedules/protocol/custom_signals.hpp"
#include "schedules/protocol/early_forwards.hpp"
#include "schedules/protocol/impossible_events.hpp"
#include "schedules/protocol/ready_choice.hpp"
#include "schedules/protocol/running_actions.hpp"
#include "schedules/protocol/stage_protocol.hpp"
#include "schedules/protocol/stage_supplies.hpp"

namespace pipetrain::schedules {

class StageMachine {
 public:
  StageMachine(std::shared_ptr<const Plan> plan, int stage, Order order, int run_ahead);

  void begin_step(StepKind kind, const std::vector<Action>* list, NextStep next);
  StepOf input_arrived(InputKind kind, int chunk, int microbatch);
  void credit_returned(InputKind output, int chunk) { supplies_.add_credit(output, chunk); }
  std::span<const std::int32_t> completed(const Action& action);
  void signalled(int custom);
  void input_taken_back(int chunk, int microbatch) { supplies_.take_back(chunk, microbatch); }
  bool verdict(bool apply, bool confirms);
  void abort() { state_ = State::aborted; }
  const Action* next();
  bool is_early() const { return is_early_; }
  bool begins_braid() const { return in_braid_; }
  StepOf step_of(const Action& action) const {
    if (running_.has(action)) return StepOf::running;
    return early_.waits_for_taken_back() ? StepOf::taken_back : StepOf::coming;
  }
  bool waits_for_verdict() const {
    return state_ == State::running && !verdict_given_ && launched_ + 1 == list().size() &&
           list()[launched_].kind == ActionKind::optimizer;
  }
  bool step_done() const {
    return state_ == State::aborted || (all_launched() && running_.all().empty() && !early_.waits_for_taken_back());
  }
  int in_flight() const { return static_cast<int>(running_.all().size() + early_.running().size()); }
  std::vector<Action> running() const;
  std::string waiting_for() const;

 private:
  enum class State { no_step, running, aborted };
  const std::vector<Action>& list() const { return *list_; }
  const std::vector<Action>& planned_list() const { return plan_->stages[static_cast<std::size_t>(stage_)]; }
  bool is_ready_order() const { return ready_ && list_ == &planned_list(); }
  void set_list(StepKind kind, const std::vector<Action>* list = nullptr);
  bool next_is_move() const { return !ready_ && is_move(list()[launched_].kind); }
  bool all_launched() const { return state_ == State::running && launched_ == list().size(); }
  bool has_inputs(const Action& action) const;
  bool can_run(const Action& action) const { return has_inputs(action) && supplies_.has_credit(action); }
  bool at_braid() const;  // true when a braid begins at the next action of the list
  bool can_run_second(const Action& first) const {
    const Action& second = *(&first + 1);
    return has_inputs(second) && supplies_.has_second_credit(first, second);
  }
  [[gnu::noinline]] const Action* launch_second();
  const Action* choose();                        // null: nothing
  [[gnu::noinline]] const Action* next_early();  // null: nothing
  [[gnu::noinline]] void begin_with_early(NextStep next);
  void launch(const Action& action);
  std::string describe(const Action& action) const;

  std::shared_ptr<const Plan> plan_;
  int stage_;
  ImpossibleEvents impossible_;
  StageSupplies supplies_;
  std::optional<ReadyChoice> ready_;           // only for Order::ready
  Action picked_;                              // the last one that ready_ chose
  const std::vector<Action>* list_ = nullptr;  // of the running step
  std::vector<Action> forwards_;               // the list of evaluations, made for the first one
  std::size_t computes_ = 0;                   // compute actions in the running step's list
  std::optional<CustomSignals> customs_;       // where the plan has some
  std::vector<bool> braids_;                   // by position in the planned list; empty: the plan has none
  bool in_braid_ = false;                      // the first action of a braid was launched, its second not yet

  State state_ = State::no_step;
  std::size_t launched_ = 0;
  std::size_t launched_computes_ = 0;
  bool verdict_given_ = false, skips_ = false;
  RunningActions running_;
  EarlyForwards early_;
  bool is_early_ = false;
};

inline bool StageMachine::has_inputs(const Action& action) const {
  if (is_compute(action.kind)) return supplies_.has_inputs(action);
  if (action.kind == ActionKind::optimizer) return verdict_given_;
  return !is_custom(action.kind) || customs_->has_all(action.microbatch);
}

inline bool StageMachine::at_braid() const { return !braids_.empty() && list_ == &planned_list() && braids_[launched_]; }

}  // namespace pipetrain::schedules
