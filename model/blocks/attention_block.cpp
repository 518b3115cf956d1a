#include "model/blocks/attention_block.hpp"

#include "model/blocks/ring_attention.hpp"

namespace pipetrain {
struct AttentionBlock::AttentionSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor qkv;  // [T, (Hq + 2 Hkv) D], normed if queries and keys have norms, rotated if the layer rotates
  HeadNorms::Saved norms;
  ProjectionNorms::Saved projection_norms;
  Tensor heads;        // [T, Hq D], the output of the heads
  Tensor log_sum_exp;  // [batch, Hq, sequence] f32
  ResidualProjection::Saved out;

  void relocate(const Relocation& moved) override {
    projection.relocate(moved);
    norms.relocate(moved);
    projection_norms.relocate(moved);
    for (Tensor* const view : {&qkv, &heads, &log_sum_exp}) moved.move(*view);
    out.relocate(moved);
  }
};

AttentionBlock::AttentionBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp)
    : rotary_(config.rotates(parameters.block.layer)),
      window_(config.window_of(parameters.block.layer)),
      sight_(config.sight_of(parameters.block.layer)),
      score_scale_(static_cast<float>(config.score_scale)),
      heads_(config.heads / tp.size()),
      kv_heads_(config.kv_heads_of_rank(tp.size())),
      head_dim_(config.head_dim),
      first_head_(tp.rank() * heads_),
      dropout_(dropout_name(parameters.block.layer, "probabilities"), config.dropout.attention),
      qkv_(config, {TensorRole::qkv_weight, bias_if(config.biases.qkv, TensorRole::qkv_bias)}, config.input_norms,
           LowRankAdapter::of(config, parameters.block, TensorRole::qkv_weight, tp)),
      out_(config, {TensorRole::attention_out_weight, bias_if(config.biases.attention_out, TensorRole::attention_out_bias)},
           {dropout_name(parameters.block.layer, "attention"), config.dropout.residual},
           LowRankAdapter::of(config, parameters.block, TensorRole::attention_out_weight, tp)) {
  if (config.head_norms) head_norms_.emplace(config);
  if (config.projection_norms) projection_norms_.emplace(config);
}

std::unique_ptr<BlockCompute::Saved> AttentionBlock::make_saved() const { return std::make_unique<AttentionSaved>(); }

void AttentionBlock::bind(const BoundTensors& tensors) {
  qkv_.bind(tensors);
  if (head_norms_) head_norms_->bind(tensors);
  if (projection_norms_) projection_norms_->bind(tensors);
  out_.bind(tensors);
}

SegmentShape AttentionBlock::shape_of(const BlockContext& context) const {
  const std::int64_t first = context.slice == nullptr ? 0 : context.slice->first;
  return {.batch = context.shape.batch,
          .queries = context.shape.sequence,
          .keys = first + context.shape.sequence,
          .first_query = first,
          .heads = heads_,
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .window = sight_.window,
          .sinks = sight_.sinks,
          .block = sight_.block,
          .period = sight_.period,
          .stripe = sight_.stripe,
          .scale = score_scale_};
}

const Tensor& AttentionBlock::rotary_table(const BlockContext& context) const {
  return window_ > 0 ? context.rotary.windowed : context.rotary.full;
}

Tensor AttentionBlock::angles(const BlockContext& context) const {
  const Tensor& table = rotary_table(context);
  return context.slice == nullptr || context.documents ? table : table.row_range(context.slice->first, table.rows());
}

void AttentionBlock::attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                            AttentionSaved& saved) const {
  const SegmentShape shape = shape_of(context);
  saved.qkv = qkv_.forward(context, input, memory, saved.projection);
  if (projection_norms_) projection_norms_->forward(context, shape, saved.qkv, *memory.results, saved.projection_norms);
  norm_and_rotate(context, shape, {saved.qkv, rotary_ ? std::optional(angles(context)) : std::nullopt, *memory.results},
                  saved.norms);
  // In 8 bits the weight gradient reads another form of the heads' output.
  Arena& for_heads = out_.in_fp8() ? *memory.results : *memory.inputs;
  saved.heads = for_heads.allocate({context.tokens(), heads_ * head_dim_}, context.dtype);
  saved.log_sum_exp = memory.results->allocate({shape.batch, heads_, shape.queries}, DType::f32);
  attention(context, saved);
}

void AttentionBlock::norm_and_rotate(const BlockContext& context, const SegmentShape& shape, const HeadNorms::ForwardArgs& args,
                                     HeadNorms::Saved& norms) const {
  if (head_norms_) return head_norms_->forward(context, shape, args, norms);
  if (args.angles)
    context.ops.rotary(shape, {.qkv = args.qkv, .cos_sin = *args.angles, .documents = context.position_origins()});
}

SliceKeys AttentionBlock::slice_keys(const BlockContext& context, const AttentionSaved& saved) const {
  SliceKeys keys;
  if (context.slice != nullptr)
    for (const Saved* earlier : context.slice->earlier) keys.push_back(static_cast<const AttentionSaved*>(earlier)->qkv);
  keys.push_back(saved.qkv);
  return keys;
}

void AttentionBlock::attention(const BlockContext& context, AttentionSaved& saved) const {
  const SliceKeys keys = slice_keys(context, saved);
  const SliceAttention of{keys, saved.heads, saved.log_sum_exp, dropout_.draw(context, first_head_)};
  if (context.cp.part.is_whole()) return slice_attention(context, shape_of(context), of);
  ring_attention(context, shape_of(context), of);
}

void AttentionBlock::attention_backward(const BlockContext& context, const Tensor& heads_grad, const AttentionSaved& saved,
                                        const Tensor& qkv_grad) const {
  const SegmentShape shape = shape_of(context);
  const Dropout dropout = dropout_.draw(context, first_head_);
  if (context.slice != nullptr || !context.cp.part.is_whole()) {
    const SliceKeys keys = slice_keys(context, saved);
    const SliceAttention of{keys, saved.heads, saved.log_sum_exp, dropout};
    const SliceGradients gradients{.out = heads_grad, .qkv = qkv_grad};
    if (context.cp.part.is_whole())
      slice_attention_backward(context, shape, of, gradients);
    else
      ring_attention_backward(context, shape, of, gradients);
    return rotate_back(context, qkv_grad);
  }
  AttentionBackwardArgs args{.dout = heads_grad,
                             .q = saved.qkv,
                             .kv = saved.qkv,
                             .out = saved.heads,
                             .log_sum_exp = saved.log_sum_exp,
                             .dq = qkv_grad,
                             .dkv = qkv_grad,
                             .documents = context.documents,
                             .dropout = dropout};
  if (rotary_) args.cos_sin = rotary_table(context);
  context.ops.attention_backward(shape, args);
}

void AttentionBlock::rotate_back(const BlockContext& context, const Tensor& qkv_grad) const {
  if (!rotary_) return;
  context.ops.rotary(shape_of(context),
                     {.qkv = qkv_grad, .cos_sin = angles(context), .documents = context.position_origins(), .inverse = true});
}

void AttentionBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<AttentionSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const KeptMemory kept = forward_memory(context, memory);
  attend(context, args.input, kept, saved);
  out_.forward(context,
               {.input = saved.heads, .residual = args.input, .output = args.output, .kept = kept.remade, .results = &memory},
               saved.out);
}

void AttentionBlock::cached_forward(const BlockContext& context, const CachedForwardArgs& args) const {
  SegmentShape shape = shape_of(context);
  shape.first_query = args.first, shape.keys += args.first;
  const ArenaScope scope(context.workspace);
  NormedProjection::Saved projection;
  const Tensor qkv = qkv_.forward(context, args.input, {&context.workspace, &context.workspace, nullptr}, projection);
  HeadNorms::Saved norms;
  ProjectionNorms::Saved projection_norms;
  if (projection_norms_) projection_norms_->forward(context, shape, qkv, context.workspace, projection_norms);
  norm_and_rotate(context, shape, {qkv, rotary_ ? std::optional(rotary_table(context)) : std::nullopt, context.workspace},
                  norms);
  const Tensor heads = context.workspace.allocate({context.tokens(), heads_ * head_dim_}, context.dtype);
  context.ops.cached_attention(shape, {.qkv = qkv, .cache = args.cache, .out = heads});
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
  const bool in_place = gradients.defers() && !runs_forward_again(context) && !qkv_.in_fp8();
  Arena& beside = qkv_.in_fp8() ? context.workspace : gradients.memory();
  Tensor qkv_grad = in_place ? gradients.take_place(saved.qkv.shape) : beside.allocate(saved.qkv.shape, context.dtype);
  const bool moves = qkv_grad.shape.rank() == 0;
  if (moves) qkv_grad = context.workspace.allocate(saved.qkv.shape, context.dtype);
  {
    const ArenaScope inner(context.workspace);
    const Tensor heads_grad = context.workspace.allocate(saved.heads.shape, context.dtype);
    out_.backward(context, {.output_grad = args.output_grad, .input = saved.heads, .input_grad = heads_grad}, gradients,
                  saved.out);
    attention_backward(context, heads_grad, saved, qkv_grad);
    if (head_norms_) head_norms_->backward(context, shape_of(context), qkv_grad, saved.norms);
    if (projection_norms_) projection_norms_->backward(context, shape_of(context), qkv_grad, saved.projection_norms);
  }
  if (moves) {
    context.ops.copy(qkv_grad, saved.qkv);
    qkv_grad = saved.qkv;
  } else if (in_place) {
    gradients.leave_place(saved.qkv);
  }
  qkv_.backward(context,
                {.output_grad = qkv_grad,
                 .residual = args.output_grad,
                 .input_grad = args.input_grad,
                 .residual_sums = out_.residual_sums(context)},
                gradients, saved.projection);
}

}  // namespace pipetrain
