#include "model/chunk_passes.hpp"

#include <algorithm>
#include <cassert>

#include "model/routed_counts.hpp"
#include "model/stage_edge.hpp"

namespace pipetrain {

namespace {

StageEdge edge_of(const ModelConfig& config, const BlockContext& context) {
  const std::int64_t counted =
      StageEdge::counted_rows(context.shape.batch, context.tokens_of_all_parts(), context.isolates_documents);
  return {config, context.shard_rows(), counted, context.dtype};
}

CountedSequences counted_sequences(const BlockContext& context) {
  return {context.shape.batch, context.isolates_documents && context.documents ? *context.documents : Tensor{}};
}

}  // namespace

BlockContext ChunkPasses::of_block(BlockContext context, const ModelChunk& chunk, std::size_t i, const ChunkSlot& slot,
                                   SliceContext& slice) const {
  context.recompute = chunk.blocks[i].recompute;
  if (!slot.slice) return context;
  slice.first = slot.slice->first;
  for (const ActivationSlot* one : slot.slice->earlier)
    slice.earlier.push_back(static_cast<const ChunkSlot&>(*one).blocks[i].get());
  slice.key_gradients = key_gradients_.of(chunk.blocks[i].index);
  context.slice = &slice;
  return context;
}

// Returns the biases of the chunk's routed block of this number; without a shape if there are none.
Tensor ChunkPasses::bias_of(const Tensor& biases, std::int64_t routed) const {
  return biases.data == nullptr ? Tensor{} : biases.row_range(routed, routed + 1).reshaped({config_.experts.count});
}

void ChunkPasses::forward(const BlockContext& context, ModelChunk& chunk, const ForwardArgs& args, ChunkSlot& slot) {
  assert(slot.state == ChunkSlot::State::empty || slot.state == ChunkSlot::State::forwarded);
  const ArenaScope scope(context.workspace);
  slot.saved.rewind(0);
  slot.inputs.clear();
  const StageEdge edge = edge_of(config_, context);
  const RoutedCounts counts(edge, chunk);
  if (edge.has_counts()) counts.begin(context.ops, args, slot);
  ForwardArgs block_args = args;
  if (!chunk.begins_model) block_args.input = edge.values_of(args.input);
  if (chunk.predicts_further) block_args.final_hidden = slot.final_hidden = slot.saved.allocate(edge.values(), context.dtype);
  std::int64_t routed = 0;
  for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
    const bool last = i + 1 == chunk.blocks.size();
    slot.inputs.push_back(block_args.input);
    block_args.output = !last              ? slot.saved.allocate(edge.values(), context.dtype)
                        : chunk.ends_model ? args.output
                                           : edge.values_of(args.output);
    SliceContext slice;
    RouterContext router{.counts = slot.counts, .sequences = counted_sequences(context)};
    if (chunk.blocks[i].is_routed()) router.bias = bias_of(args.expert_biases, routed++);
    BlockContext own = of_block(context, chunk, i, slot, slice);
    if (edge.has_counts()) own.router = &router;
    own.base_alone = args.base_alone;
    weights_.with(chunk.blocks[i],
                  [&](const BlockCompute& block) { block.forward(own, block_args, slot.saved, *slot.blocks[i]); });
    block_args.input = block_args.output;
  }
  if (edge.has_counts()) counts.pass_on(context, args, slot);
  slot.state = ChunkSlot::State::forwarded;
}

void ChunkPasses::backward(const BlockContext& context, ModelChunk& chunk, const BackwardArgs& args, ChunkSlot& slot,
                           Accumulate accumulate, WeightHalf half) {
  assert(slot.state == ChunkSlot::State::forwarded);
  const bool deferred = half == WeightHalf::deferred;
  const ArenaScope scope(context.workspace);
  slot.pending.rewind(0);
  slot.kept.clear();
  slot.kept_ends.clear();
  WeightGradients gradients = deferred
                                  ? WeightGradients::deferred(context.ops, slot.pending, accumulate, slot.kept)
                                  : WeightGradients::immediate(context.ops, context.workspace, accumulate, listener_.added);
  const StageEdge edge = edge_of(config_, context);
  RouterContext router{.sequences = counted_sequences(context), .sequence_scale = args.sequence_scale};
  if (edge.has_counts()) router.counts = RoutedCounts(edge, chunk).total(context.ops, args, slot);
  std::int64_t routed =
      std::count_if(chunk.blocks.begin(), chunk.blocks.end(), [](const ChunkBlock& block) { return block.is_routed(); });
  BackwardArgs block_args = args;
  if (chunk.predicts_further) block_args.final_hidden_grad = context.workspace.allocate(edge.values(), context.dtype);
  if (!chunk.ends_model) block_args.output_grad = edge.values_of(args.output_grad);
  for (std::size_t i = chunk.blocks.size(); i-- > 0;) {
    ChunkBlock& block = chunk.blocks[i];
    // The gradient is written over the block's input, which nothing reads afterwards; so it stays valid for W too.
    block_args.input_grad = i > 0 ? slot.inputs[i] : chunk.begins_model ? args.input_grad : edge.values_of(args.input_grad);
    if (!deferred) open(block);
    SliceContext slice;
    BlockContext own = of_block(context, chunk, i, slot, slice);
    if (edge.has_counts()) own.router = &router;
    if (block.is_routed()) {
      --routed;
      router.bias = bias_of(args.expert_biases, routed);
      if (args.router_statistics.data != nullptr) router.statistics = args.router_statistics.row_range(routed, routed + 1);
    }
    const auto run = [&](const BlockCompute& compute) { compute.backward(own, block_args, gradients, *slot.blocks[i]); };
    if (block.block.kind == BlockKind::embedding) {
      run(*block.compute);  // it reads no weight
    } else {
      weights_.with(block, run);
    }
    if (!deferred) close(block);
    slot.kept_ends.push_back(slot.kept.size());
    block_args.output_grad = block_args.input_grad;
  }
  slot.state = deferred ? ChunkSlot::State::pending : ChunkSlot::State::empty;
}

void ChunkPasses::weight_grad(Ops& ops, const ModelChunk& chunk, ChunkSlot& slot) const {
  assert(slot.state == ChunkSlot::State::pending);
  std::size_t next = 0;
  for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
    const ChunkBlock& block = chunk.blocks[chunk.blocks.size() - 1 - i];
    open(block);
    for (; next < slot.kept_ends[i]; ++next) compute(ops, slot.kept[next], listener_.added);
    close(block);
  }
  slot.kept.clear();
  slot.state = ChunkSlot::State::empty;
}

}  // namespace pipetrain
