#include "model/blocks/head_block.hpp"

namespace pipetrain {
namespace {

struct HeadSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor logits;                // [T, V], V in whole vectors (StoredTensor)
  Tensor log_sum_exp;           // [T] f32
  Tensor targets;               // [T] i32
  bool differentiated = false;  // true once logits hold their own gradient
  SequenceLosses::Saved sequences;

  void relocate(const Relocation& moved) override {
    projection.relocate(moved);
    sequences.relocate(moved);
    for (Tensor* const view : {&logits, &log_sum_exp, &targets}) moved.move(*view);
  }
};

}  // namespace

HeadBlock::HeadBlock(const ModelConfig& config, const TensorParallel& tp, bool has_norm)
    : vocabulary_(own_rows(config.outputs(), tp)), logits_(config, tp, has_norm), losses_(config.preference) {}

std::unique_ptr<BlockCompute::Saved> HeadBlock::make_saved() const { return std::make_unique<HeadSaved>(); }

void HeadBlock::bind(const BoundTensors& tensors) { logits_.bind(tensors); }

void HeadBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<HeadSaved&>(saved_base);
  saved.targets = losses_.are_used() ? losses_.begin(context, args, memory, saved.sequences) : args.targets;
  saved.logits = logits_.forward(context, args.input, head_memory(context, memory), saved.projection);
  saved.log_sum_exp = memory.allocate({context.tokens()}, DType::f32);
  saved.differentiated = args.loss_scale && args.scores.data == nullptr && !losses_.are_used();
  const ArenaScope scope(context.workspace);
  std::optional<Tensor> token_losses;
  if (losses_.are_used()) token_losses = context.workspace.allocate({context.tokens()}, DType::f32);
  context.ops.cross_entropy({.tp = context.tp,
                             .logits = saved.logits,
                             .targets = saved.targets,
                             .vocabulary = vocabulary_,
                             .log_sum_exp = saved.log_sum_exp,
                             .loss_sum = token_losses ? context.workspace.allocate({1}, DType::f64) : args.loss_sum,
                             .gradient_scale = saved.differentiated ? args.loss_scale : std::nullopt,
                             .token_losses = token_losses});
  if (token_losses) losses_.finish(context, args, *token_losses, {}, saved.sequences);
  if (args.scores.data != nullptr) context.ops.counted_rows(saved.logits, saved.targets, args.scores);
}

void HeadBlock::cached_forward(const BlockContext& context, const CachedForwardArgs& args) const {
  BlockContext last = context;
  last.shape = {1, 1};
  const ArenaScope scope(context.workspace);
  NormedProjection::Saved projection;
  const Tensor row = args.input.row_range(context.tokens() - 1, context.tokens());
  const Tensor logits = logits_.forward(last, row, {&context.workspace, &context.workspace, nullptr}, projection);
  context.ops.copy(logits, args.output);
}

void HeadBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                         Saved& saved_base) const {
  auto& saved = static_cast<HeadSaved&>(saved_base);
  if (!saved.differentiated) {
    const ArenaScope scope(context.workspace);
    context.ops.cross_entropy_backward(
        {.logits = saved.logits,
         .targets = saved.targets,
         .vocabulary = vocabulary_,
         .log_sum_exp = saved.log_sum_exp,
         .scale = args.loss_scale,
         .token_scales = losses_.are_used() ? std::optional(losses_.token_scales(context, saved.sequences)) : std::nullopt});
  }
  logits_.backward(context, {.output_grad = saved.logits, .input_grad = args.input_grad}, gradients, saved.projection);
}

}  // namespace pipetrain
