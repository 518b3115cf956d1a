#include "model/attention/packed_attention.hpp"

#include "model/blocks/ring_attention.hpp"
#include "model/rotation/rotary_table.hpp"

namespace pipetrain {
namespace {

// Returns log_sum_exp by runs of queries, of which ranks that share sequences have two of each sequence (ring_attention.hpp).
Tensor by_runs(const BlockContext& context, const Tensor& log_sum_exp) {
  if (context.cp.part.is_whole()) return log_sum_exp;
  const Shape& all = log_sum_exp.shape;
  return log_sum_exp.reshaped({2 * all[0], all[1], all[2] / 2});
}

}  // namespace

PackedAttention::PackedAttention(const ModelConfig& config, std::int64_t layer, const TensorParallel& tp)
    : window_(config.window_of(layer)),
      sight_(config.sight_of(layer)),
      score_scale_(static_cast<float>(score_scale(config))),
      heads_(config.heads / tp.size()),
      kv_heads_(config.kv_heads_of_rank(tp.size())),
      head_dim_(config.head_dim),
      value_dim_(config.value_dim()),
      first_head_(tp.rank() * heads_),
      dropout_(dropout_name(layer, "probabilities"), config.dropout.attention),
      has_sinks_(config.sinks) {}

void PackedAttention::bind(const BoundTensors& tensors) {
  if (has_sinks_) sinks_ = tensors.at(TensorRole::sink_logits);
}

SegmentShape PackedAttention::shape_of(const BlockContext& context) const {
  const std::int64_t first = context.slice == nullptr ? 0 : context.slice->first;
  return {.batch = context.shape.batch,
          .queries = context.shape.sequence,
          .keys = first + context.shape.sequence,
          .first_query = first,
          .heads = heads_,
          .kv_heads = kv_heads_,
          .head_dim = head_dim_,
          .own_value_dim = value_dim_ == head_dim_ ? 0 : value_dim_,
          .window = sight_.window,
          .sinks = sight_.sinks,
          .block = sight_.block,
          .period = sight_.period,
          .stripe = sight_.stripe,
          .scale = score_scale_};
}

void PackedAttention::add_sinks(const BlockContext& context, const Tensor& heads, const Tensor& log_sum_exp) const {
  if (has_sinks_) context.ops.add_sinks({.logits = sinks_.weight, .out = heads, .log_sum_exp = by_runs(context, log_sum_exp)});
}

void PackedAttention::forward(const BlockContext& context, const SliceKeys& keys, Arena& for_heads, Arena& results,
                              Saved& saved) const {
  const SegmentShape shape = shape_of(context);
  saved.heads = for_heads.allocate({context.tokens(), shape.output_cols()}, context.dtype);
  saved.log_sum_exp = results.allocate({shape.batch, heads_, shape.queries}, DType::f32);
  const SliceAttention of{keys, saved.heads, saved.log_sum_exp, dropout_.draw(context, first_head_)};
  if (context.cp.part.is_whole())
    slice_attention(context, shape, of);
  else
    ring_attention(context, shape, of);
  add_sinks(context, saved.heads, saved.log_sum_exp);
}

void PackedAttention::backward(const BlockContext& context, const BackwardArgs& args, const Saved& saved) const {
  const SegmentShape shape = shape_of(context);
  const Dropout dropout = dropout_.draw(context, first_head_);
  if (has_sinks_)
    context.ops.sinks_backward({.logits = sinks_.weight,
                                .dout = args.heads_grad,
                                .out = saved.heads,
                                .log_sum_exp = by_runs(context, saved.log_sum_exp),
                                .dlogits = sums_of(context, sinks_)});
  if (has_whole_sequences(context))
    return context.ops.attention_backward(shape, {.dout = args.heads_grad,
                                                  .q = saved.qkv,
                                                  .kv = saved.qkv,
                                                  .out = saved.heads,
                                                  .log_sum_exp = saved.log_sum_exp,
                                                  .dq = args.qkv_grad,
                                                  .dkv = args.qkv_grad,
                                                  .documents = context.documents,
                                                  .dropout = dropout,
                                                  .cos_sin = args.cos_sin});
  const SliceAttention of{args.keys, saved.heads, saved.log_sum_exp, dropout};
  const SliceGradients gradients{.out = args.heads_grad, .qkv = args.qkv_grad};
  if (context.cp.part.is_whole())
    slice_attention_backward(context, shape, of, gradients);
  else
    ring_attention_backward(context, shape, of, gradients);
}

Tensor PackedAttention::cached_forward(const BlockContext& context, const CachedArgs& args) const {
  SegmentShape shape = shape_of(context);
  shape.first_query = args.first, shape.keys += args.first;
  const Tensor heads = context.workspace.allocate({context.tokens(), shape.output_cols()}, context.dtype);
  const Tensor sums = has_sinks_ ? context.workspace.allocate({1, heads_, shape.queries}, DType::f32) : Tensor{};
  context.ops.cached_attention(shape, {.qkv = args.qkv, .cache = args.cache, .out = heads, .log_sum_exp = sums});
  add_sinks(context, heads, sums);
  return heads;
}

}  // namespace pipetrain
