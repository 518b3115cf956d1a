#include "schedules/plan/plan_run.hpp"

#include <algorithm>

#include "schedules/plan/braids.hpp"
#include "schedules/plan/grid.hpp"
#include "schedules/plan/invalid_plan.hpp"

namespace pipetrain::schedules {

PlanRun::PlanRun(const Plan& plan, const std::vector<StageNeeds>* needs, const SlotLife& life, UnitTimes* times)
    : plan_(plan),
      needs_(needs),
      life_(life),
      done_(static_cast<std::size_t>(plan.placement.virtual_stages())),
      positions_(plan.stages.size()),
      runnable_(plan.stages.size()),
      tied_places_(tied_sum_places(plan.placement)),
      waits_(plan),
      signals_(plan.custom.size()) {
  if (times != nullptr) clock_.emplace(plan, *times);
  if (has_braids(plan))
    for (int stage = 0; stage < static_cast<int>(positions_.size()); ++stage) braids_.push_back(braid_starts(plan, stage));
}

void PlanRun::run() {
  for (int stage = 0; stage < static_cast<int>(positions_.size()); ++stage) wake(stage);
  for (int stage = runnable_.take_last(); stage >= 0; stage = runnable_.take_last())
    while (!is_finished(stage) && can_run_next(stage)) {
      const bool braided = at_braid(stage);
      advance(stage, braided ? InBraid::first : InBraid::no);
      if (braided) advance(stage, InBraid::second);
    }
  for (int stage = 0; stage < static_cast<int>(positions_.size()); ++stage)
    if (!is_finished(stage)) report_deadlock();
}

const Action& PlanRun::head(int stage) const {
  return plan_.stages[static_cast<std::size_t>(stage)][positions_[static_cast<std::size_t>(stage)]];
}

bool PlanRun::is_finished(int stage) const {
  return positions_[static_cast<std::size_t>(stage)] == plan_.stages[static_cast<std::size_t>(stage)].size();
}

std::int32_t PlanRun::freed(const ActionKind& last_reader, int v) const {
  if (last_reader == ActionKind::forward) return done(v).forwards;
  return last_reader == ActionKind::weight_grad ? done(v).weights : done(v).backwards;
}

bool PlanRun::at_braid(int stage) const {
  const auto index = static_cast<std::size_t>(stage);
  return !braids_.empty() && braids_[index][positions_[index]];
}

bool PlanRun::can_run_next(int stage) {
  const Action& action = head(stage);
  if (!can_run(stage, action)) return false;
  if (!at_braid(stage)) return true;
  const Action& second = *(&action + 1);
  return can_run(stage, second, second.kind == action.kind && second.chunk == action.chunk ? 1 : 0);
}

bool PlanRun::has_activation_slot(int v, int ahead) const {
  if (needs_ == nullptr || v + 1 == plan_.placement.virtual_stages()) return true;
  const StageChunk to = plan_.placement.at(v + 1);
  const auto& chunk = (*needs_)[static_cast<std::size_t>(to.stage)].chunks[static_cast<std::size_t>(to.chunk)];
  return done(v).forwards + ahead < chunk.activation_slots + freed(life_.activation, v + 1);
}

bool PlanRun::has_gradient_slot(int v) const {
  if (needs_ == nullptr || v == 0) return true;
  const StageChunk to = plan_.placement.at(v - 1);
  const auto& chunk = (*needs_)[static_cast<std::size_t>(to.stage)].chunks[static_cast<std::size_t>(to.chunk)];
  return done(v).backwards < chunk.gradient_slots + freed(life_.gradient, v - 1);
}

bool PlanRun::can_run(int stage, const Action& action, int ahead) {
  const int v = virtual_stage(stage, action);
  switch (action.kind) {
    case ActionKind::forward:
      return (v == 0 || done(v - 1).forwards > action.microbatch) && has_activation_slot(v, ahead);
    case ActionKind::backward:
    case ActionKind::input_grad:
      return (v + 1 == plan_.placement.virtual_stages() ||
              done(v + 1).backwards > backward_place(action.microbatch, plan_.slices)) &&
             has_gradient_slot(v);
    case ActionKind::sum_tied:
      return tied_partners_arrived(stage);
    case ActionKind::optimizer:
      return norms_ == static_cast<int>(positions_.size());
    case ActionKind::custom:
      return signals_[static_cast<std::size_t>(action.microbatch)] == waits_.count(action.microbatch);
    default:
      return true;
  }
}

// Both stages of the exchange must reach it before either continues.
bool PlanRun::tied_partners_arrived(int stage) {
  bool& has_arrived = tied_arrivals_[static_cast<std::size_t>(stage == tied_places_.front().stage ? 0 : 1)];
  if (!has_arrived) {
    has_arrived = true;
    if (clock_) clock_->reach_tied(stage);
    for (const StageChunk place : tied_places_) wake(place.stage);
  }
  return tied_arrivals_.front() && (tied_places_.size() == 1 || tied_arrivals_.back());
}

void PlanRun::advance(int stage, InBraid part) {
  const Action& action = head(stage);
  const int v = virtual_stage(stage, action);
  if (clock_) clock_->run(stage, action, part);
  ++positions_[static_cast<std::size_t>(stage)];
  if (!waits_.empty()) signal(stage, action);
  if (action.kind == ActionKind::norm && ++norms_ == static_cast<int>(positions_.size()))
    for (int other = 0; other < norms_; ++other) wake(other);
  if (!is_compute(action.kind)) return;
  if (action.kind == ActionKind::forward) ++done(v).forwards;
  if (gives_input_grad(action.kind)) ++done(v).backwards;
  if (gives_weight_grad(action.kind)) ++done(v).weights;
  wake_neighbours(v);
}

void PlanRun::signal(int stage, const Action& action) {
  for (const int number : waits_.waiting_for(stage, action)) {
    ++signals_[static_cast<std::size_t>(number)];
    if (clock_) clock_->signal(number, stage);
    wake(plan_.custom[static_cast<std::size_t>(number)].stage);
  }
}

void PlanRun::wake(int stage) { runnable_.insert(stage); }

void PlanRun::wake_neighbours(int v) {
  if (v > 0) wake(plan_.placement.at(v - 1).stage);
  if (v + 1 < plan_.placement.virtual_stages()) wake(plan_.placement.at(v + 1).stage);
}

PlanRun::Wait PlanRun::why_custom_waits(int stage, const Action& action) const {
  for (const StageAction& awaited : waits_.awaited_by(action.microbatch)) {
    const auto& list = plan_.stages[static_cast<std::size_t>(awaited.stage)];
    const auto place = static_cast<std::size_t>(std::find(list.begin(), list.end(), awaited.action) - list.begin());
    if (place < positions_[static_cast<std::size_t>(awaited.stage)]) continue;
    return {"stage " + std::to_string(stage) + " " + to_string(action) + " waits for " +
                to_string(awaited.action, plan_.form()) + " of stage " + std::to_string(awaited.stage),
            awaited.stage};
  }
  return {"", stage};
}

// Returns the action of a braid that lacks something: the first, unless it could run alone.
const Action& PlanRun::waiting(int stage) const {
  const Action& action = head(stage);
  if (!at_braid(stage)) return action;
  const int v = virtual_stage(stage, action);
  const bool has_input = v == 0 || done(v - 1).forwards > action.microbatch;
  return has_input && has_activation_slot(v, 0) ? *(&action + 1) : action;
}

PlanRun::Wait PlanRun::why_waiting(int stage) const {
  const Action& action = waiting(stage);
  if (is_custom(action.kind)) return why_custom_waits(stage, action);
  const int v = virtual_stage(stage, action), last = plan_.placement.virtual_stages() - 1;
  const std::string text = "stage " + std::to_string(stage) + " " + to_string(action, plan_.form()) + " waits for ";
  const auto from = [&](const std::string& what, int producer) {
    const int other = plan_.placement.at(producer).stage;
    return Wait{text + what + " stage " + std::to_string(other), other};
  };
  if (action.kind == ActionKind::forward)
    return v > 0 && done(v - 1).forwards <= action.microbatch ? from("its activation from", v - 1)
                                                              : from("a free activation slot at", v + 1);
  if (gives_input_grad(action.kind))
    return v < last && done(v + 1).backwards <= backward_place(action.microbatch, plan_.slices)
               ? from("its gradient from", v + 1)
               : from("a free gradient slot at", v - 1);
  if (action.kind == ActionKind::sum_tied)
    for (const StageChunk place : tied_places_)
      if (place.stage != stage) return {text + "T of stage " + std::to_string(place.stage), place.stage};
  for (int other = 0; other < static_cast<int>(positions_.size()); ++other)
    if (other != stage && !is_finished(other)) return {text + "N of stage " + std::to_string(other), other};
  return {text + "nothing", stage};
}

void PlanRun::report_deadlock() const {
  int stage = 0;
  while (is_finished(stage)) ++stage;
  // Following the chain of waiting stages reaches a circle after at most one visit of each stage.
  for (std::size_t step = 0; step < positions_.size(); ++step) stage = why_waiting(stage).on_stage;
  std::string fault = "the plan deadlocks: ";
  std::vector<GridMark> marks;
  const int start = stage;
  do {
    const Wait wait = why_waiting(stage);
    if (marks.size() < 4) fault += (marks.empty() ? "" : ", ") + wait.reason;
    if (marks.size() == 4) fault += ", ...";
    marks.push_back({stage, positions_[static_cast<std::size_t>(stage)]});
    stage = wait.on_stage;
  } while (stage != start && !is_finished(stage));
  throw InvalidPlan(fault, start, print_grid(plan_, marks));
}

}  // namespace pipetrain::schedules
