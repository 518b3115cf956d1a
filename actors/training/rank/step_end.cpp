#include "actors/training/rank/step_end.hpp"

#include <cassert>
#include <utility>

namespace pipetrain {

using schedules::ActionKind;

void StepEnd::begin_step() {
  previewed_ = false;
  early_.clear();
}

void StepEnd::launched_early(const schedules::Action& forward) {
  if (previewed_) early_.push_back(forward);
}

// O, which follows if the step is applied, overwrites the weights that operations read.
void StepEnd::set_verdict(const Verdict& verdict) {
  verdict_ = verdict;
  if (!previewed_ || (verdict.apply && verdict.confirms)) return;
  for (const schedules::Action& forward : std::exchange(early_, {})) rank_.activations.take_back(forward);
  rank_.clock.forget_early();
  if (!verdict.apply) rank_.state.restore();
}

void StepEnd::run(const schedules::Action& action, const StepInfo& step) {
  switch (action.kind) {
    case ActionKind::reduce_grads:
      rank_.state.reduce(action.chunk);
      break;
    case ActionKind::sum_replicated:
      rank_.state.sum_replicated(action.chunk);
      break;
    case ActionKind::sum_tied:
      rank_.state.sum_tied();
      break;
    case ActionKind::norm:
      ending_ = step;
      // Whatever the verdict is, all states before it are then safe.
      if (RankCopies* const copies = rank_.state.copies(); copies && !step.evaluates()) copies->wait_until_held();
      if (!step.evaluates()) rank_.state.square_sums(rank_.reports.square_sums());
      rank_.reports.copy(rank_.compute, step);
      break;
    case ActionKind::preview:
      previewed_ = true;
      rank_.state.preview(static_cast<float>(ending_.learning_rate), static_cast<float>(1 / ending_.loss_scale));
      break;
    default:
      assert(verdict_.apply);  // a skipped step has no O
      rank_.state.step({.lr = static_cast<float>(ending_.learning_rate),
                        .grad_scale = static_cast<float>(verdict_.grad_scale),
                        .frozen_after = ending_.frozen_after});
      break;
  }
}

}  // namespace pipetrain
