#include "model/blocks/sequence_losses.hpp"

namespace pipetrain {

Tensor SequenceLosses::begin(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const {
  saved.targets = args.targets;
  if (args.preference_facts) saved.whole = memory.allocate({context.shape.batch, 2}, DType::f64);
  if (formula_->loss != PreferenceLoss::orpo) return args.targets;
  const Tensor counted = memory.allocate({context.tokens()}, DType::i32);
  context.ops.context_targets({.targets = args.targets, .out = counted});
  return counted;
}

void SequenceLosses::finish(const BlockContext& context, const ForwardArgs& args, const Tensor& token_losses,
                            const std::vector<const Saved*>& earlier, Saved& saved) const {
  context.ops.sequence_sums({.token_losses = token_losses, .targets = args.targets, .sums = args.loss_sum});
  saved.sums = args.loss_sum;
  if (!args.preference_facts) return;
  saved.facts = *args.preference_facts;
  if (args.slice && !args.slice->last) return;
  context.ops.copy(saved.sums, saved.whole);
  for (const Saved* slice : earlier) context.ops.add(saved.whole, slice->sums);
  context.sum_losses_over_parts(saved.whole);
  for (const Saved* slice : earlier) context.ops.copy(saved.whole, slice->whole);
}

Tensor SequenceLosses::token_scales(const BlockContext& context, const Saved& saved) const {
  const Tensor scales = context.workspace.allocate({context.tokens()}, DType::f32);
  context.ops.preference_scales(
      {.formula = *formula_, .sums = saved.whole, .facts = saved.facts, .targets = saved.targets, .scales = scales});
  return scales;
}

}  // namespace pipetrain
