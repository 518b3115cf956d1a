#include "model/routed_counts.hpp"

namespace pipetrain {

void RoutedCounts::begin(Ops& ops, const ForwardArgs& args, ChunkSlot& slot) const {
  slot.counts = slot.saved.allocate(edge_.counts(), DType::i32);
  chunk_.begins_model ? ops.zero(slot.counts) : ops.copy(edge_.counts_of(args.input), slot.counts);
}

void RoutedCounts::pass_on(const BlockContext& context, const ForwardArgs& args, const ChunkSlot& slot) const {
  if (!chunk_.ends_model) return context.ops.copy(slot.counts, edge_.counts_of(args.output));
  context.sum_over_parts(slot.counts);
  if (slot.slice && !slot.slice->earlier.empty()) context.ops.add(slot.counts, counts_of(*slot.slice->earlier.back()));
}

Tensor RoutedCounts::total(Ops& ops, const BackwardArgs& args, const ChunkSlot& slot) const {
  const Tensor total = chunk_.ends_model ? slot.counts : edge_.counts_of(args.output_grad);
  if (!chunk_.begins_model) ops.copy(total, edge_.counts_of(args.input_grad));
  if (chunk_.ends_model && slot.is_last_slice())
    for (const ActivationSlot* earlier : slot.slice->earlier) ops.copy(total, counts_of(*earlier));
  return total;
}

}  // namespace pipetrain
