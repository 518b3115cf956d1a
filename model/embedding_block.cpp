#include "model/embedding_block.hpp"

namespace pipetrain {
namespace {

struct EmbeddingSaved final : BlockCompute::Saved {
  Tensor ids;  // [T] i32
};

}  // namespace

EmbeddingBlock::EmbeddingBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp)
    : parameters_(parameters), first_id_(RowSplit(config.vocabulary, tp.size()).begin(tp.rank())) {}

std::unique_ptr<BlockCompute::Saved> EmbeddingBlock::make_saved() const { return std::make_unique<EmbeddingSaved>(); }

void EmbeddingBlock::bind(const Tensor& weights, const Tensor& grads) {
  table_ = bind_tensors(parameters_, weights, grads).at(0);
}

void EmbeddingBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena&, Saved& saved) const {
  static_cast<EmbeddingSaved&>(saved).ids = args.input;
  context.ops.embedding(context.tp, args.input, table_.weight, first_id_, args.output);
}

// The table's gradient is added at once, also in I: it is cheap, and the ids' slot goes back after I.
void EmbeddingBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients&, Saved& saved) const {
  const ArenaScope scope(context.workspace);
  Tensor gathered = args.output_grad;
  if (context.gathers()) {
    gathered = context.workspace.allocate({context.tokens(), args.output_grad.shape[1]}, context.dtype);
    context.ops.gather(context.tp, args.output_grad, gathered);
  }
  context.ops.embedding_grad(static_cast<EmbeddingSaved&>(saved).ids, gathered, first_id_, table_.grad);
}

}  // namespace pipetrain
