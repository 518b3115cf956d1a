#include "model/attention/attention_block.hpp"

namespace pipetrain {
struct AttentionBlock::AttentionSaved final : HeadsSaved {
  NormedProjection::Saved projection;
  HeadNorms::Saved norms;
  ProjectionNorms::Saved projection_norms;

  void relocate(const Relocation& moved) override {
    projection.relocate(moved);
    norms.relocate(moved);
    projection_norms.relocate(moved);
    HeadsSaved::relocate(moved);
  }
};

AttentionBlock::AttentionBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp)
    : SelfAttention(config, parameters, tp, bias_if(config.biases.attention_out, TensorRole::attention_out_bias)),
      rotary_(config.rotates(parameters.block.layer)),
      qkv_(config, {TensorRole::qkv_weight, bias_if(config.biases.qkv, TensorRole::qkv_bias)}, config.input_norms,
           LowRankAdapter::of(config, parameters.block, TensorRole::qkv_weight, tp)) {
  if (config.head_norms) head_norms_.emplace(config);
  if (config.projection_norms) projection_norms_.emplace(config);
}

std::unique_ptr<BlockCompute::Saved> AttentionBlock::make_saved() const { return std::make_unique<AttentionSaved>(); }

void AttentionBlock::bind(const BoundTensors& tensors) {
  qkv_.bind(tensors);
  attention_.bind(tensors);
  if (head_norms_) head_norms_->bind(tensors);
  if (projection_norms_) projection_norms_->bind(tensors);
  out_.bind(tensors);
}

const Tensor& AttentionBlock::rotary_table(const BlockContext& context) const {
  return attention_.window() > 0 ? context.rotary.windowed : context.rotary.full;
}

void AttentionBlock::attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                            HeadsSaved& saved_base) const {
  auto& saved = static_cast<AttentionSaved&>(saved_base);
  const SegmentShape shape = attention_.shape_of(context);
  const Tensor qkv = saved.attention.qkv = qkv_.forward(context, input, memory, saved.projection);
  if (projection_norms_) projection_norms_->forward(context, shape, qkv, *memory.results, saved.projection_norms);
  norm_and_rotate(context, shape,
                  {qkv, rotary_ ? std::optional(angles(context, rotary_table(context))) : std::nullopt, *memory.results},
                  saved.norms);
  // In 8 bits the weight gradient reads another form of the heads' output.
  Arena& for_heads = out_.is_trained_in_fp8() ? *memory.results : *memory.inputs;
  attention_.forward(context, slice_keys(context, saved), for_heads, *memory.results, saved.attention);
}

void AttentionBlock::norm_and_rotate(const BlockContext& context, const SegmentShape& shape, const HeadNorms::ForwardArgs& args,
                                     HeadNorms::Saved& norms) const {
  if (head_norms_) return head_norms_->forward(context, shape, args, norms);
  if (args.angles)
    context.ops.rotary(shape, {.qkv = args.qkv, .cos_sin = *args.angles, .documents = context.position_origins()});
}

void AttentionBlock::attention_backward(const BlockContext& context, const Tensor& heads_grad, const AttentionSaved& saved,
                                        const Tensor& qkv_grad) const {
  const bool is_whole = PackedAttention::has_whole_sequences(context);
  attention_.backward(context,
                      {.keys = slice_keys(context, saved),
                       .heads_grad = heads_grad,
                       .qkv_grad = qkv_grad,
                       .cos_sin = rotary_ && is_whole ? std::optional(rotary_table(context)) : std::nullopt},
                      saved.attention);
  if (!is_whole) rotate_back(context, qkv_grad);
}

void AttentionBlock::rotate_back(const BlockContext& context, const Tensor& qkv_grad) const {
  if (!rotary_) return;
  context.ops.rotary(attention_.shape_of(context), {.qkv = qkv_grad,
                                                    .cos_sin = angles(context, rotary_table(context)),
                                                    .documents = context.position_origins(),
                                                    .inverse = true});
}

void AttentionBlock::cached_forward(const BlockContext& context, const CachedForwardArgs& args) const {
  const SegmentShape shape = attention_.shape_of(context);
  const ArenaScope scope(context.workspace);
  NormedProjection::Saved projection;
  const Tensor qkv = qkv_.forward(context, args.input, {&context.workspace, &context.workspace, nullptr}, projection);
  HeadNorms::Saved norms;
  ProjectionNorms::Saved projection_norms;
  if (projection_norms_) projection_norms_->forward(context, shape, qkv, context.workspace, projection_norms);
  norm_and_rotate(context, shape, {qkv, rotary_ ? std::optional(rotary_table(context)) : std::nullopt, context.workspace},
                  norms);
  const Tensor heads = attention_.cached_forward(context, {.qkv = qkv, .cache = args.cache, .first = args.first});
  ResidualProjection::Saved unused;
  out_.forward(context, {.input = heads, .residual = args.input, .output = args.output, .results = &context.workspace}, unused);
}

void AttentionBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                              Saved& saved_base) const {
  auto& saved = static_cast<AttentionSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  if (runs_forward_again(context)) {
    attend(context, saved.projection.input, backward_memory(context, gradients), saved);
  }
  // If the weight gradient waits for W, the gradient is written over kept values, as in the MLP. Its own qkv is still read
  // here, so it takes the memory of the attention block above it; the topmost block is moved. A gradient that does not wait
  // for W stays in the workspace, where it is overwritten before it leaves the cache. Nor is there such memory if the values
  // were computed again, and in 8 bits W reads another form of the gradient.
  const bool in_place = gradients.defers() && !runs_forward_again(context) && !qkv_.is_trained_in_fp8();
  Arena& beside = qkv_.is_trained_in_fp8() ? context.workspace : gradients.memory();
  const Tensor& qkv = saved.attention.qkv;
  Tensor qkv_grad = in_place ? gradients.take_place(qkv.shape) : beside.allocate(qkv.shape, context.dtype);
  const bool moves = qkv_grad.shape.rank() == 0;
  if (moves) qkv_grad = context.workspace.allocate(qkv.shape, context.dtype);
  {
    const ArenaScope inner(context.workspace);
    const Tensor heads_grad = context.workspace.allocate(saved.attention.heads.shape, context.dtype);
    out_.backward(context, {.output_grad = args.output_grad, .input = saved.attention.heads, .input_grad = heads_grad},
                  gradients, saved.out);
    attention_backward(context, heads_grad, saved, qkv_grad);
    if (head_norms_) head_norms_->backward(context, attention_.shape_of(context), qkv_grad, saved.norms);
    if (projection_norms_) projection_norms_->backward(context, attention_.shape_of(context), qkv_grad, saved.projection_norms);
  }
  if (moves) {
    context.ops.copy(qkv_grad, qkv);
    qkv_grad = qkv;
  } else if (in_place) {
    gradients.leave_place(qkv);
  }
  qkv_.backward(context,
                {.output_grad = qkv_grad,
                 .residual = args.output_grad,
                 .input_grad = args.input_grad,
                 .residual_sums = out_.residual_sums(context)},
                gradients, saved.projection);
}

}  // namespace pipetrain
