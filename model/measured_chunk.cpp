#include "model/measured_chunk.hpp"

#include "model/parameters/gradient_sums.hpp"
#include "model/rotation/rotary_tables.hpp"
#include "model/stage_edge.hpp"

namespace pipetrain {

std::vector<std::vector<Tensor>> measuring_grads(const ParameterLayout& layout, DType dtype) {
  auto grads = weight_views(layout, {nullptr, {}, dtype});
  for (std::size_t block = 0; block < grads.size(); ++block) {
    for (std::size_t i = 0; i < grads[block].size(); ++i) {
      if (!is_trained(layout.blocks[block].tensors[i].group)) grads[block][i] = {};
    }
  }
  return grads;
}

ActivationBytes measured_bytes(ChunkPasses& passes, ModelChunk& chunk, const StageModelSpec& spec, const TensorParallel& tp) {
  const ModelConfig& config = spec.config;
  const MicrobatchShape& shape = spec.shape;
  const DType dtype = spec.numerics.precision.compute;
  const auto ops = make_measuring_ops();
  Arena workspace = Arena::measuring();
  ops->set_workspace(workspace);
  const std::int64_t positions = shape.sequence * spec.context.part.size;  // of a slice, on all ranks that share it
  const RotaryTables tables = rotary_tables_at(nullptr, config, positions * spec.slices);
  BlockContext context{
      *ops, workspace, tp, shape, dtype, tables, Recompute::none, DropoutDraws{}, {}, {spec.context.part}, {spec.experts.part}};
  context.isolates_documents = spec.isolates_documents;
  const auto slot = chunk.make_slot(), before = chunk.make_slot();
  if (spec.slices > 1) {  // a slice after another needs the most memory
    slot->slice = {.first = positions, .earlier = {before.get()}};
    before->slice = SliceArgs{};
  }
  const std::int64_t counted = StageEdge::counted_rows(shape.batch, context.tokens_of_all_parts(), spec.isolates_documents);
  const StageEdge edge(config, context.shard_rows(), counted, dtype);
  const Tensor hidden{nullptr, edge.shape(), dtype}, ids{nullptr, {shape.tokens()}, DType::i32};
  const std::int64_t losses = config.mtp.is_trained() ? 2 : 1, rows = config.mtp.is_trained() ? 3 : 1;  // of targets
  const Tensor loss_sum{nullptr, config.preference ? Shape{shape.batch, 2} : Shape{losses}, DType::f64},
      targets{nullptr, {rows * shape.tokens()}, DType::i32};
  ForwardArgs forward{chunk.begins_model ? ids : hidden, targets, hidden, loss_sum, {}};
  if (config.preference) forward.preference_facts = Tensor{nullptr, {shape.batch, preference_facts}, DType::f64};
  if (spec.slices > 1) passes.forward(context, chunk, forward, *before);
  passes.forward(context, chunk, forward, *slot);
  passes.backward(context, chunk, {hidden, hidden, 1}, *slot, Accumulate::yes, WeightHalf::deferred);
  passes.weight_grad(*ops, chunk, *slot);
  passes.forward(context, chunk, forward, *slot);
  passes.backward(context, chunk, {hidden, hidden, 1}, *slot, Accumulate::yes, WeightHalf::now);
  return {slot->saved.peak(), slot->pending.peak(), workspace.peak()};
}

std::size_t measured_norm_workspace(const ParameterLayout& layout, const TensorParallel& tp) {
  const auto ops = make_measuring_ops();
  Arena workspace = Arena::measuring();
  ops->set_workspace(workspace);
  for (const Parameter& parameter : layout.parameters) {
    const Tensor gradient{nullptr, {parameter.local.elements()}, DType::f32};
    ops->square_sum(gradient, {nullptr, {1}, DType::f64});
    if (parameter.copies > 1) sum_copied_grads({copied_part(parameter, gradient, tp)}, tp, *ops);
  }
  return workspace.peak();
}

}  // namespace pipetrain
