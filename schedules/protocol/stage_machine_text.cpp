// The text of a stage's machine for people: what it does next, and what it waits for.
#include "schedules/protocol/stage_machine.hpp"

namespace pipetrain::schedules {

// Returns "B3 waits for the gradient of microbatch 3 and a free slot for its gradient".
std::string StageMachine::describe(const Action& action) const {
  if (is_custom(action.kind)) return customs_->describe(*plan_, action.microbatch);
  std::vector<std::string> missing = supplies_.missing(action, plan_->slices);
  if (action.kind == ActionKind::optimizer && !verdict_given_) missing.push_back("the verdict");
  std::string text = to_string(action, plan_->form());
  for (std::size_t i = 0; i < missing.size(); ++i) text += (i == 0 ? " waits for " : " and ") + missing[i];
  return missing.empty() ? text + " can be launched" : text;
}

std::string StageMachine::waiting_for() const {
  if (state_ == State::no_step) return "no step has begun";
  if (state_ == State::aborted) return "the step was aborted";
  std::string running;
  for (const Action& action : this->running()) running += (running.empty() ? "" : ", ") + to_string(action, plan_->form());
  if (all_launched()) return running.empty() ? "the step is done" : "all is launched; running: " + running;
  if (!running_.has_room()) return "launched and not completed: " + running;
  if (!is_ready_order()) {
    const Action& action = list()[launched_];
    return describe(at_braid() && can_run(action) ? *(&action + 1) : action);
  }
  if (launched_computes_ == computes_) return describe(ready_->end_of_step(launched_ - computes_));
  std::string text;
  for (const Action& action : ready_->candidates()) text += (text.empty() ? "" : "; ") + describe(action);
  return text;
}

}  // namespace pipetrain::schedules
