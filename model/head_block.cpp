#include "model/head_block.hpp"

namespace pipetrain {
namespace {

struct HeadSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor logits;       // [T, V]
  Tensor log_sum_exp;  // [T] f32
  Tensor targets;      // [T] i32
};

}  // namespace

HeadBlock::HeadBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp)
    : parameters_(parameters), first_id_(RowSplit(config.vocabulary, tp.size()).begin(tp.rank())), logits_(config.norm_eps) {}

std::unique_ptr<BlockCompute::Saved> HeadBlock::make_saved() const { return std::make_unique<HeadSaved>(); }

void HeadBlock::bind(const Tensor& weights, const Tensor& grads) {
  const std::vector<BoundTensor> bound = bind_tensors(parameters_, weights, grads);
  logits_.bind(bound.at(0), bound.at(1));
}

void HeadBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<HeadSaved&>(saved_base);
  saved.targets = args.targets;
  Arena* const remade = context.recompute == Recompute::none ? &memory : nullptr;
  saved.logits = logits_.forward(context, args.input, {&memory, &memory, remade}, saved.projection);
  saved.log_sum_exp = memory.allocate({context.tokens()}, DType::f32);
  context.ops.cross_entropy(context.tp, saved.logits, saved.targets, first_id_, saved.log_sum_exp, args.loss_sum);
}

void HeadBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                         Saved& saved_base) const {
  auto& saved = static_cast<HeadSaved&>(saved_base);
  context.ops.cross_entropy_backward(saved.logits, saved.targets, first_id_, saved.log_sum_exp, args.loss_scale);
  logits_.backward(context, saved.logits, nullptr, args.input_grad, gradients, saved.projection);
}

}  // namespace pipetrain
