#include "schedules/protocol/stage_protocol.hpp"

#include <algorithm>
#include <stdexcept>

#include "schedules/plan/braids.hpp"
#include "schedules/protocol/stage_machine.hpp"

namespace pipetrain::schedules {

namespace {

int checked_stage(const Plan& plan, int stage) {
  if (stage < 0 || static_cast<std::size_t>(stage) >= plan.stages.size())
    throw std::invalid_argument("stage " + std::to_string(stage) + " is not in a plan of " +
                                std::to_string(plan.stages.size()) + " stages");
  return stage;
}

int checked_run_ahead(int run_ahead) {
  if (run_ahead < 1)
    throw std::invalid_argument("a stage must be allowed at least 1 launched action, not " + std::to_string(run_ahead));
  return run_ahead;
}

// Throws unless a step of this list can be followed by one that begins early.
void check_may_go_ahead(const Plan& plan, const std::vector<Action>& list, bool is_planned) {
  const bool moves = std::any_of(list.begin(), list.end(), [](const Action& action) { return is_move(action.kind); });
  if (!is_planned || !plan.custom.empty() || moves)
    throw std::invalid_argument(
        "only a step of training in the planned order, without moves and custom actions, is followed by one that begins early");
}

}  // namespace

StageMachine::StageMachine(std::shared_ptr<const Plan> plan, int stage, Order order, int run_ahead)
    : plan_(std::move(plan)),
      stage_(stage),
      impossible_(plan_, stage),
      supplies_(*plan_, checked_stage(*plan_, stage), impossible_),
      running_(checked_run_ahead(run_ahead)) {
  if (order == Order::ready && plan_->ready_rule == ReadyRule::none)
    throw std::invalid_argument("schedule " + plan_->schedule + " has no rule to choose what is ready; use the planned order");
  if (!plan_->custom.empty()) customs_.emplace(*plan_);
  braids_ = braid_starts(*plan_, stage);
  set_list(StepKind::training);
  if (order == Order::ready) ready_.emplace(*plan_, stage);
}

void StageMachine::set_list(StepKind kind, const std::vector<Action>* list) {
  const bool evaluates = kind == StepKind::evaluation;
  if (evaluates && forwards_.empty()) forwards_ = forward_pass(planned_list());
  list_ = list ? list : evaluates ? &forwards_ : &planned_list();
  computes_ = static_cast<std::size_t>(
      std::count_if(list_->begin(), list_->end(), [](const Action& action) { return is_compute(action.kind); }));
}

void StageMachine::begin_step(StepKind kind, const std::vector<Action>* given, NextStep next) {
  if (state_ == State::running && !all_launched()) impossible_.report("a step begins although " + waiting_for());
  if (next != NextStep::unknown) check_may_go_ahead(*plan_, planned_list(), kind == StepKind::training && !given && !ready_);
  if (early_.any() && (kind == StepKind::evaluation || given))
    impossible_.report("a step begins that is not the one whose forwards were launched already");
  state_ = State::running;
  if (given || list_ != (kind == StepKind::evaluation ? &forwards_ : &planned_list())) set_list(kind, given);
  launched_ = launched_computes_ = 0;
  if (early_.comes() || next != NextStep::unknown) begin_with_early(next);
  verdict_given_ = skips_ = false;
  supplies_.begin_step();
  if (is_ready_order()) ready_->begin_step();
}

void StageMachine::begin_with_early(NextStep next) {
  EarlyForwards::Handover begun = early_.begin_step(next);
  launched_ = launched_computes_ = begun.launched;
  is_early_ = false;
  running_.begin_step(std::move(begun.running));
}

StepOf StageMachine::input_arrived(InputKind kind, int c, int microbatch) {
  supplies_.check_input(kind, c, microbatch);
  if (state_ == State::running && supplies_.add(kind, c, microbatch)) return StepOf::running;
  // A second input belongs to the coming step: its sender knows that all compute of this step is over here, or has
  // begun the coming one early.
  const bool may_be_early =
      state_ != State::running || launched_computes_ == computes_ || (early_.comes() && kind != InputKind::gradient);
  if (!may_be_early || !supplies_.add_for_coming_step(kind, c, microbatch))
    impossible_.input(kind, c, microbatch, "arrives twice");
  return StepOf::coming;
}

std::span<const std::int32_t> StageMachine::completed(const Action& action) {
  if (!running_.complete(action)) {
    if (!early_.completed(action)) impossible_.end(action);
    running_.complete_early();
    return {};
  }
  if (!customs_ || list_ == &forwards_) return {};
  return customs_->waiting_for(stage_, action);
}

void StageMachine::signalled(int custom) {
  if (state_ == State::aborted) return;  // sent before the sender heard of the abort
  const auto number = static_cast<std::size_t>(custom);
  if (custom < 0 || number >= plan_->custom.size() || plan_->custom[number].stage != stage_)
    impossible_.signal(custom, "is not on this stage");
  if (customs_->has_all(custom)) impossible_.signal(custom, "has all");
  customs_->add(custom);
}

bool StageMachine::verdict(bool apply, bool confirms) {
  if (state_ == State::aborted) return false;  // sent before the sender heard of the abort
  if (state_ != State::running || verdict_given_) impossible_.report("a verdict comes outside a step or twice");
  verdict_given_ = true;
  skips_ = !apply;
  if (!early_.comes() || (apply && confirms)) return false;
  early_.take_back();
  return true;
}

std::vector<Action> StageMachine::running() const {
  std::vector<Action> all = running_.all();
  all.insert(all.end(), early_.running().begin(), early_.running().end());
  return all;
}

// Returns a pointer, because an action returned by value is written in parts and read as a whole, which stalls the processor.
inline const Action* StageMachine::choose() {
  if (is_ready_order() && launched_computes_ < computes_) {
    const auto picked = ready_->pick([this](const Action& action) { return can_run(action); }, !running_.all().empty());
    if (!picked) return nullptr;
    picked_ = *picked;
    return &picked_;
  }
  const Action& action = is_ready_order() ? ready_->end_of_step(launched_ - computes_) : list()[launched_];
  if (!can_run(action) || (at_braid() && !can_run_second(action))) return nullptr;
  return &action;
}

inline const Action* StageMachine::next() {
  if (state_ != State::running) return nullptr;
  if (early_.comes()) {
    is_early_ = false;
    if (all_launched() || waits_for_verdict()) return next_early();
  }
  if (all_launched()) return nullptr;
  if (in_braid_) return launch_second();
  if (!running_.has_room() && !next_is_move()) return nullptr;
  const Action* const action = choose();
  if (!action) return nullptr;
  if (skips_ && action->kind == ActionKind::optimizer) {  // the last one of the list
    ++launched_;
    return early_.comes() ? next_early() : nullptr;
  }
  if (at_braid()) in_braid_ = true, running_.begin_braid(*action);
  launch(*action);
  return action;
}

const Action* StageMachine::launch_second() {
  const Action& action = list()[launched_];
  in_braid_ = false;
  running_.join_braid();
  launch(action);
  return &action;
}

// The list has at least an N or an O after its forwards.
const Action* StageMachine::next_early() {
  static constexpr Action preview{ActionKind::preview, 0, -1};
  if (!early_.may_launch(verdict_given_) || !running_.has_room()) return nullptr;
  const Action& action = planned_list()[early_.launched()];
  const bool braided = !braids_.empty() && braids_[early_.launched()];
  if (action.kind != ActionKind::forward || braided || !supplies_.has_credit(action)) return nullptr;
  if (!supplies_.has_coming_inputs(action)) return nullptr;
  if (!verdict_given_ && !early_.has_preview()) {
    early_.preview_launched();
    running_.launch(preview);
    return &preview;
  }
  running_.launch_early();
  is_early_ = true;
  supplies_.take_credit(action);
  early_.launched(action);
  return &action;
}

void StageMachine::launch(const Action& action) {
  ++launched_;
  __builtin_prefetch(list().data() + launched_ + 12);  // a simulation of many stages would otherwise wait for memory here
  if (is_compute(action.kind)) ++launched_computes_;
  supplies_.take_credit(action);
  if (is_custom(action.kind)) customs_->clear(action.microbatch);
  if (is_ready_order()) ready_->launched(action);
  running_.launch(action);
}

StageProtocol::StageProtocol(std::shared_ptr<const Plan> plan, int stage, Order order, int run_ahead)
    : machine_(std::make_unique<StageMachine>(std::move(plan), stage, order, run_ahead)) {}
StageProtocol::~StageProtocol() = default;
StageProtocol::StageProtocol(StageProtocol&&) noexcept = default;
StageProtocol& StageProtocol::operator=(StageProtocol&&) noexcept = default;

void StageProtocol::begin_step(StepKind kind, const std::vector<Action>* list, NextStep next) {
  machine_->begin_step(kind, list, next);
}
StepOf StageProtocol::input_arrived(InputKind kind, int chunk, int microbatch) {
  return machine_->input_arrived(kind, chunk, microbatch);
}
void StageProtocol::credit_returned(InputKind output, int chunk) { machine_->credit_returned(output, chunk); }
std::span<const std::int32_t> StageProtocol::completed(const Action& action) { return machine_->completed(action); }
void StageProtocol::signalled(int custom) { machine_->signalled(custom); }
void StageProtocol::input_taken_back(int chunk, int microbatch) { machine_->input_taken_back(chunk, microbatch); }
bool StageProtocol::verdict(bool apply, bool confirms) { return machine_->verdict(apply, confirms); }
void StageProtocol::abort() { machine_->abort(); }
const Action* StageProtocol::next() { return machine_->next(); }
bool StageProtocol::begins_braid() const { return machine_->begins_braid(); }
bool StageProtocol::is_early() const { return machine_->is_early(); }
StepOf StageProtocol::step_of(const Action& action) const { return machine_->step_of(action); }
bool StageProtocol::waits_for_verdict() const { return machine_->waits_for_verdict(); }
bool StageProtocol::step_done() const { return machine_->step_done(); }
int StageProtocol::in_flight() const { return machine_->in_flight(); }
std::vector<Action> StageProtocol::running() const { return machine_->running(); }
std::string StageProtocol::waiting_for() const { return machine_->waiting_for(); }

}  // namespace pipetrain::schedules
