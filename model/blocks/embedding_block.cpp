#include "model/blocks/embedding_block.hpp"

namespace pipetrain {
namespace {

struct EmbeddingSaved final : BlockCompute::Saved {
  Tensor ids;  // [T] i32
};

}  // namespace

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp)
    : parameters_(parameters),
      vocabulary_(vocabulary_rows(config, tp)),
      learned_positions_(config.positions == PositionKind::learned) {}

std::unique_ptr<BlockCompute::Saved> EmbeddingBlock::make_saved() const { return std::make_unique<EmbeddingSaved>(); }

void EmbeddingBlock::bind(const Tensor& weights, const Tensor& grads) {
  const BoundTensors tensors(parameters_, weights, grads);
  table_ = tensors.at(TensorRole::token_table);
  table_ = {table_.weight.row_range(0, vocabulary_.count), table_.grad.row_range(0, vocabulary_.count)};
  if (learned_positions_) positions_ = tensors.at(TensorRole::position_table);
}

void EmbeddingBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena&, Saved& saved) const {
  static_cast<EmbeddingSaved&>(saved).ids = args.input;
  context.ops.embedding(context.tp, args.input, table_.weight, vocabulary_.first, args.output);
  if (!learned_positions_) return;
  context.ops.add_positions(context.tp.shard_begin(context.tokens()), context.shape.sequence, positions_.weight, args.output);
}

// The tables' gradients are added at once, also in I: they are cheap, and the ids' slot goes back after I.
void EmbeddingBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients&, Saved& saved) const {
  if (learned_positions_) {
    context.ops.positions_grad(context.tp.shard_begin(context.tokens()), context.shape.sequence, args.output_grad,
                               positions_.grad);
  }
  const ArenaScope scope(context.workspace);
  Tensor gathered = args.output_grad;
  if (context.gathers()) {
    gathered = context.workspace.allocate({context.tokens(), args.output_grad.shape[1]}, context.dtype);
    context.ops.gather(context.tp, args.output_grad, gathered);
  }
  context.ops.embedding_grad(static_cast<EmbeddingSaved&>(saved).ids, gathered, vocabulary_.first, table_.grad);
}

}  // namespace pipetrain
