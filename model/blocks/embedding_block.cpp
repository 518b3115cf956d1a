#include "model/blocks/embedding_block.hpp"

#include <cassert>

namespace pipetrain {
namespace {

struct EmbeddingSaved final : BlockCompute::Saved {
  Tensor ids;  // [T] i32

  void relocate(const Relocation& moved) override { moved.move(ids); }
};

}  // namespace

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const TensorParallel& tp)
    : vocabulary_(own_rows(config.vocabulary, tp)),
      learned_positions_(config.positions == PositionKind::learned),
      scale_(static_cast<float>(config.embedding_scale)),
      dropout_("embedding", config.dropout.embedding) {
  assert(scale_ == 1 || (!learned_positions_ && config.dropout.embedding == 0));
  const std::int64_t row = config.untrained_row.value_or(-1) - vocabulary_.first;
  if (config.untrained_row && row >= 0 && row < vocabulary_.count) untrained_row_ = row;
}

std::unique_ptr<BlockCompute::Saved> EmbeddingBlock::make_saved() const { return std::make_unique<EmbeddingSaved>(); }

void EmbeddingBlock::bind(const BoundTensors& tensors) {
  table_ = tensors.at(TensorRole::token_table);
  table_.weight = table_.weight.row_range(0, vocabulary_.count);
  if (table_.is_trained()) table_.grad = table_.grad.row_range(0, vocabulary_.count);
  if (learned_positions_) positions_ = tensors.at(TensorRole::position_table);
}

Tensor EmbeddingBlock::positions_of(const BlockContext& context, const Tensor& table) {
  return context.slice == nullptr || context.documents ? table : table.row_range(context.slice->first, table.rows());
}

void EmbeddingBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena&, Saved& saved) const {
  static_cast<EmbeddingSaved&>(saved).ids = args.input;
  context.ops.embedding(
      {.tp = context.tp, .ids = args.input, .table = table_.weight, .first_id = vocabulary_.first, .out = args.output});
  if (scale_ != 1) context.ops.scale({.x = args.output, .out = args.output, .factor = scale_});
  if (learned_positions_) {
    context.ops.add_positions({.first_token = context.tp.shard_begin(context.tokens()),
                               .sequence = context.shape.sequence,
                               .table = positions_of(context, positions_.weight),
                               .x = args.output,
                               .documents = context.position_origins()});
  }
  if (dropout_.active(context)) dropout_.drop(context, args.output, args.output);
}

void EmbeddingBlock::cached_forward(const BlockContext& context, const CachedForwardArgs& args) const {
  context.ops.embedding(
      {.tp = context.tp, .ids = args.input, .table = table_.weight, .first_id = vocabulary_.first, .out = args.output});
  if (scale_ != 1) context.ops.scale({.x = args.output, .out = args.output, .factor = scale_});
  if (!learned_positions_) return;
  const std::int64_t count = context.tokens();
  context.ops.add_positions({.first_token = 0,
                             .sequence = count,
                             .table = positions_.weight.row_range(args.first, args.first + count),
                             .x = args.output});
}

// The tables' gradients are added at once, in I too: they are cheap, and the slot of the ids is returned after I.
void EmbeddingBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients&, Saved& saved) const {
  if (!table_.is_trained() && !positions_.is_trained()) return;
  const ArenaScope scope(context.workspace);
  Tensor grad = args.output_grad;
  if (dropout_.active(context)) {
    grad = context.workspace.allocate(grad.shape, context.dtype);
    dropout_.drop(context, args.output_grad, grad);
  }
  if (scale_ != 1) {
    grad = context.workspace.allocate(grad.shape, context.dtype);
    context.ops.scale({.x = args.output_grad, .out = grad, .factor = scale_});
  }
  if (positions_.is_trained()) {
    context.ops.positions_grad({.first_token = context.tp.shard_begin(context.tokens()),
                                .sequence = context.shape.sequence,
                                .dy = grad,
                                .dtable = positions_of(context, positions_.grad),
                                .documents = context.position_origins()});
  }
  if (!table_.is_trained()) return;
  Tensor gathered = grad;
  if (context.gathers()) {
    gathered = context.workspace.allocate({context.tokens(), grad.shape[1]}, context.dtype);
    context.ops.gather({.tp = context.tp, .shard = grad, .full = gathered});
  }
  context.ops.embedding_grad(
      {.ids = static_cast<EmbeddingSaved&>(saved).ids, .dy = gathered, .first_id = vocabulary_.first, .dtable = table_.grad});
  // The head's gradient of a tied table has memory of its own, which must stay as it is.
  if (untrained_row_) context.ops.zero(table_.grad.row_range(*untrained_row_, *untrained_row_ + 1));
}

}  // namespace pipetrain
