// The texts of a stage's machine: what it waits for, and which event is impossible.
#include <stdexcept>

#include "schedules/plan/check_customs.hpp"
#include "schedules/protocol/stage_machine.hpp"

namespace pipetrain::schedules {

namespace {

const char* name_of(InputKind kind) {
  switch (kind) {
    case InputKind::activation:
      return "activation";
    case InputKind::gradient:
      return "gradient";
    case InputKind::target:
      return "target";
  }
  return "?";
}

}  // namespace

// Returns "B3 waits for the gradient of microbatch 3 and for a free slot for its gradient".
std::string StageProtocol::Machine::describe(const Action& action) const {
  if (is_custom(action.kind)) return describe_custom(action.microbatch);
  const auto lacks = [&](InputKind kind) { return !inputs_.has(kind, action.chunk, action.microbatch); };
  std::vector<std::string> missing;
  const auto need = [&](InputKind kind) {
    if (lacks(kind))
      missing.push_back(std::string("the ") + name_of(kind) + " of microbatch " + piece_text(action.microbatch, plan_->slices));
  };
  if (action.kind == ActionKind::forward) {
    need(InputKind::activation);
    if (chunk(action.chunk).is_last) need(InputKind::target);
  }
  if (gives_input_grad(action.kind) && !chunk(action.chunk).is_last) need(InputKind::gradient);
  if (action.kind == ActionKind::optimizer && !verdict_given_) missing.push_back("the verdict");
  if (!has_credit(action))
    missing.push_back(action.kind == ActionKind::forward ? "a free slot for its activation" : "a free slot for its gradient");

  std::string text = to_string(action, plan_->form());
  for (std::size_t i = 0; i < missing.size(); ++i) text += (i == 0 ? " waits for " : " and ") + missing[i];
  return missing.empty() ? text + " can be launched" : text;
}

// Returns "X2 (send-stats) waits for 0:B1 and 3:F2: 1 of 2 have come".
std::string StageProtocol::Machine::describe_custom(int number) const {
  const std::string text = custom_name(*plan_, number);
  if (has_signals(number)) return text + " can be launched";
  std::string awaited;
  for (const StageAction& one : customs_->waits.awaited_by(number))
    awaited += (awaited.empty() ? "" : " and ") + std::to_string(one.stage) + ":" + to_string(one.action, plan_->form());
  return text + " waits for " + awaited + ": " + std::to_string(customs_->signals[static_cast<std::size_t>(number)]) + " of " +
         std::to_string(customs_->waits.count(number)) + " have come";
}

std::string StageProtocol::Machine::waiting_for() const {
  if (state_ == State::no_step) return "no step has begun";
  if (state_ == State::aborted) return "the step was aborted";
  std::string running;
  for (const Action& action : this->running()) running += (running.empty() ? "" : ", ") + to_string(action, plan_->form());
  if (all_launched()) return running.empty() ? "the step is done" : "all is launched; running: " + running;
  if (computing_ >= run_ahead_) return "launched and not completed: " + running;
  if (!is_ready_order()) {
    const Action& action = list()[launched_];
    return describe(at_braid() && can_run(action) ? *(&action + 1) : action);
  }
  if (launched_computes_ == computes_) return describe(ends_of_step_[launched_ - computes_]);
  std::string text;
  for (const Action& action : ready_->candidates()) text += (text.empty() ? "" : "; ") + describe(action);
  return text;
}

void StageProtocol::Machine::impossible(const std::string& what) const {
  throw std::logic_error("stage " + std::to_string(stage_) + ": " + what);
}

void StageProtocol::Machine::impossible_input(InputKind kind, int c, int microbatch, const char* why) const {
  impossible(std::string("the ") + name_of(kind) + " of microbatch " + piece_text(microbatch, plan_->slices) + " for chunk " +
             std::to_string(c) + " " + why);
}

void StageProtocol::Machine::impossible_credit(InputKind output, int c, const char* why) const {
  impossible(std::string("a credit comes for the ") + name_of(output) + " of chunk " + std::to_string(c) + ", which " + why);
}

void StageProtocol::Machine::impossible_signal(int custom, const char* why) const {
  impossible("a signal comes for " + custom_name(*plan_, custom) + ", which " + why);
}

void StageProtocol::Machine::impossible_begin() const { impossible("a step begins although " + waiting_for()); }

void StageProtocol::Machine::impossible_end(const Action& action) const {
  impossible(to_string(action, plan_->form()) + " completes but is not running");
}

}  // namespace pipetrain::schedules
