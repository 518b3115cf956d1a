// The implementation of StageProtocol. Internal to schedules/: stage_protocol.cpp decides, stage_machine_text.cpp
// describes the state for people.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedules/plan/custom_waits.hpp"
#include "schedules/protocol/early_forwards.hpp"
#include "schedules/protocol/inputs.hpp"
#include "schedules/protocol/ready_choice.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

class StageProtocol::Machine {
 public:
  Machine(std::shared_ptr<const Plan> plan, int stage, Order order, int run_ahead);

  void begin_step(StepKind kind, const std::vector<Action>* list, NextStep next);
  StepOf input_arrived(InputKind kind, int chunk, int microbatch);
  void credit_returned(InputKind output, int chunk);
  std::span<const std::int32_t> completed(const Action& action);
  void signalled(int custom);
  void input_taken_back(int chunk, int microbatch);
  bool verdict(bool apply, bool confirms);
  void abort() { state_ = State::aborted; }
  const Action* next();
  bool is_early() const { return is_early_; }
  bool begins_braid() const { return in_braid_; }
  StepOf step_of(const Action& action) const;
  bool waits_for_verdict() const {
    return state_ == State::running && !verdict_given_ && launched_ + 1 == list().size() &&
           list()[launched_].kind == ActionKind::optimizer;
  }
  bool step_done() const {
    return state_ == State::aborted || (all_launched() && in_flight_.empty() && !early_.waits_for_taken_back());
  }
  int in_flight() const { return static_cast<int>(in_flight_.size() + early_.running().size()); }
  std::vector<Action> running() const;
  std::string waiting_for() const;

 private:
  enum class State { no_step, running, aborted };
  // The inputs and outputs of a chunk, which follow from its place in the model.
  struct Chunk {
    bool is_first = false;
    bool is_last = false;
    int activation_credits = 0;
    int gradient_credits = 0;
  };

  // The custom actions of the plan, and the number of awaited signals that each of this stage's has received.
  struct Customs {
    explicit Customs(const Plan& plan) : waits(plan), signals(plan.custom.size()) {}
    CustomWaits waits;
    std::vector<int> signals;
  };

  const std::vector<Action>& list() const { return *list_; }
  const std::vector<Action>& planned_list() const { return plan_->stages[static_cast<std::size_t>(stage_)]; }
  bool is_ready_order() const { return ready_ && list_ == &planned_list(); }
  void set_list(StepKind kind, const std::vector<Action>* list = nullptr);
  bool has_chunk(int index) const { return index >= 0 && static_cast<std::size_t>(index) < chunks_.size(); }
  const Chunk& chunk(int index) const { return chunks_[static_cast<std::size_t>(index)]; }
  Chunk& chunk(int index) { return chunks_[static_cast<std::size_t>(index)]; }
  bool next_is_move() const { return !ready_ && is_move(list()[launched_].kind); }
  bool all_launched() const { return state_ == State::running && launched_ == list().size(); }
  bool has_inputs(const Action& action) const;
  bool has_signals(int custom) const;
  bool has_credit(const Action& action) const;
  bool can_run(const Action& action) const;
  bool at_braid() const;  // true when a braid begins at the next action of the list
  bool can_run_second(const Action& first) const;
  [[gnu::noinline]] const Action* launch_second();
  const Action* choose();                        // null: nothing
  [[gnu::noinline]] const Action* next_early();  // null: nothing
  [[gnu::noinline]] void begin_with_early(NextStep next);
  void check_may_go_ahead(StepKind kind, const std::vector<Action>* given) const;
  void launch(const Action& action);
  std::string describe(const Action& action) const;
  std::string describe_custom(int number) const;
  // Out of line, so that the callers stay small.
  [[noreturn, gnu::noinline]] void impossible(const std::string& what) const;
  [[noreturn, gnu::noinline]] void impossible_input(InputKind kind, int chunk, int microbatch, const char* why) const;
  [[noreturn, gnu::noinline]] void impossible_credit(InputKind output, int chunk, const char* why) const;
  [[noreturn, gnu::noinline]] void impossible_signal(int custom, const char* why) const;
  [[noreturn, gnu::noinline]] void impossible_begin() const;
  [[noreturn, gnu::noinline]] void impossible_end(const Action& action) const;

  std::shared_ptr<const Plan> plan_;
  int stage_;
  int run_ahead_;
  std::optional<ReadyChoice> ready_;           // only for Order::ready
  Action picked_;                              // the last one that ready_ chose
  std::vector<Action> ends_of_step_;           // only for Order::ready: the actions after all compute, in plan order
  const std::vector<Action>* list_ = nullptr;  // of the running step
  std::vector<Action> forwards_;               // the list of evaluations, made for the first one
  std::size_t computes_ = 0;                   // compute actions in the running step's list
  std::vector<Chunk> chunks_;
  Inputs inputs_;
  std::optional<Customs> customs_;  // where the plan has some
  std::vector<bool> braids_;        // by position in the planned list; empty: the plan has none
  bool in_braid_ = false;           // the first action of a braid was launched, its second not yet
  std::vector<Action> braided_;     // first actions of running braids: the second of each stands for both in computing_

  State state_ = State::no_step;
  std::size_t launched_ = 0;
  std::size_t launched_computes_ = 0;
  bool verdict_given_ = false, skips_ = false;
  std::vector<Action> in_flight_;  // of the running step
  EarlyForwards early_;
  bool is_early_ = false;
  int computing_ = 0;  // of both steps; moves run beside compute and do not count for run_ahead
};

inline bool StageProtocol::Machine::has_inputs(const Action& action) const {
  const int c = action.chunk, m = action.microbatch;
  switch (action.kind) {
    case ActionKind::forward:
      return inputs_.has(InputKind::activation, c, m) && (!chunk(c).is_last || inputs_.has(InputKind::target, c, m));
    case ActionKind::backward:
    case ActionKind::input_grad:
      return chunk(c).is_last || inputs_.has(InputKind::gradient, c, m);
    case ActionKind::optimizer:
      return verdict_given_;
    case ActionKind::custom:
      return has_signals(action.microbatch);
    default:
      return true;
  }
}

inline bool StageProtocol::Machine::has_credit(const Action& action) const {
  if (action.kind == ActionKind::forward) return chunk(action.chunk).is_last || chunk(action.chunk).activation_credits > 0;
  if (gives_input_grad(action.kind)) return chunk(action.chunk).is_first || chunk(action.chunk).gradient_credits > 0;
  return true;
}

inline bool StageProtocol::Machine::can_run(const Action& action) const { return has_inputs(action) && has_credit(action); }

inline bool StageProtocol::Machine::at_braid() const {
  return !braids_.empty() && list_ == &planned_list() && braids_[launched_];
}

}  // namespace pipetrain::schedules
