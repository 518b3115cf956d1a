#include "model/attention/latent_attention_block.hpp"

namespace pipetrain {
namespace {

constexpr float latent_norm_eps = 1e-6F;  // whatever the model's other norms have

}  // namespace

struct LatentAttentionBlock::LatentSaved final : HeadsSaved {
  Tensor input;  // [Tr, H]
  Norm::Statistics statistics;
  Tensor normed;      // [Tr, H]
  Tensor all_normed;  // [T, H], where queries come from the hidden state; without a shape elsewhere
  Latent query, key_value;
  Tensor rotated;                          // [T, R]: the shared columns of the keys, before they rotate
  LowRankAdapter::Saved compress_adapter;  // without tensors where there are none

  void relocate(const Relocation& moved) override {
    statistics.relocate(moved);
    query.relocate(moved);
    key_value.relocate(moved);
    for (Tensor* const view : {&input, &normed, &all_normed, &rotated}) moved.move(*view);
    compress_adapter.relocate(moved);
    HeadsSaved::relocate(moved);
  }
};

LatentAttentionBlock::LatentAttentionBlock(const ModelConfig& config, const BlockParameters& parameters,
                                           const TensorParallel& tp)
    : SelfAttention(config, parameters, tp),
      sizes_(*config.latent),
      interleaved_(config.rope.interleaved),
      latent_eps_(latent_norm_eps),
      norm_(config),
      compress_(config, parameters.block, TensorRole::compress_weight, tp),
      query_expand_(config, parameters.block, TensorRole::query_expand_weight, tp),
      key_value_expand_(config, parameters.block, TensorRole::key_value_expand_weight, tp) {}

std::unique_ptr<BlockCompute::Saved> LatentAttentionBlock::make_saved() const { return std::make_unique<LatentSaved>(); }

void LatentAttentionBlock::bind(const BoundTensors& tensors) {
  norm_.bind(tensors);
  attention_.bind(tensors);
  out_.bind(tensors);
  if (has_query_latent()) query_norm_ = tensors.at(TensorRole::latent_query_norm_weight);
  key_norm_ = tensors.at(TensorRole::latent_key_norm_weight);
  for (AdaptedMatrix* const matrix : {&compress_, &query_expand_, &key_value_expand_}) matrix->bind(tensors);
}

LatentAttentionBlock::Latent LatentAttentionBlock::latent(const BlockContext& context, const Tensor& own,
                                                          const BoundTensor& norm, const KeptMemory& memory) const {
  Latent latent{.own = own,
                .inv_rms = memory.results->allocate({own.rows()}, DType::f32),
                .all = memory.inputs->allocate({context.tokens(), own.shape[1]}, context.dtype)};  // own may have no row
  const Tensor normed = context.own_rows(latent.all);
  context.ops.rms_norm({.x = own, .weight = norm.weight, .eps = latent_eps_, .y = normed, .inv_rms = latent.inv_rms});
  if (context.gathers()) context.ops.gather({.tp = context.tp, .shard = normed, .full = latent.all});
  return latent;
}

void LatentAttentionBlock::compress(const BlockContext& context, const KeptMemory& memory, LatentSaved& saved) const {
  const std::int64_t rows = context.shard_rows(), hidden = norm_.hidden(), tokens = context.tokens();
  saved.statistics = norm_.allocate_statistics(rows, *memory.results);
  saved.normed = memory.inputs->allocate({rows, hidden}, context.dtype);
  norm_.forward(context.ops, {.x = saved.input, .y = saved.normed, .statistics = saved.statistics});
  const auto part_of = [&](const Tensor& all, std::int64_t first, std::int64_t columns) {
    const Tensor part = memory.results->allocate({rows, columns}, context.dtype);
    context.ops.copy_columns({.source = all, .source_begin = first, .target = part, .count = columns});
    return part;
  };
  saved.rotated = memory.results->allocate({tokens, sizes_.rotated}, context.dtype);
  const Tensor compressed = memory.results->allocate({rows, sizes_.compressed_columns()}, context.dtype);
  compress_.reserve(context, rows, *memory.inputs, saved.compress_adapter);
  compress_.forward(context, {.input = saved.normed, .output = compressed, .first_row = context.first_own_row()},
                    saved.compress_adapter);
  if (has_query_latent()) saved.query = latent(context, part_of(compressed, 0, sizes_.query_rank), query_norm_, memory);
  saved.key_value = latent(context, part_of(compressed, sizes_.query_rank, sizes_.key_value_rank), key_norm_, memory);
  const Tensor rotated = part_of(compressed, sizes_.query_rank + sizes_.key_value_rank, sizes_.rotated);
  context.ops.gather({.tp = context.tp, .shard = rotated, .full = saved.rotated});
  saved.all_normed = has_query_latent() ? Tensor{} : saved.normed;
  if (has_query_latent() || !context.gathers()) return;
  saved.all_normed = memory.inputs->allocate({tokens, hidden}, context.dtype);
  context.ops.gather({.tp = context.tp, .shard = saved.normed, .full = saved.all_normed});
}

Tensor LatentAttentionBlock::queries(const BlockContext& context, const LatentSaved& saved) const {
  const Tensor queries = context.workspace.allocate({context.tokens(), query_expand_.rows()}, context.dtype);
  const Tensor& from = has_query_latent() ? saved.query.all : saved.all_normed;
  query_expand_.forward(context, {.input = from, .output = queries}, saved.query.expand);
  return queries;
}

void LatentAttentionBlock::attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                                  HeadsSaved& saved_base) const {
  auto& saved = static_cast<LatentSaved&>(saved_base);
  saved.input = input;
  compress(context, memory, saved);
  const SegmentShape shape = attention_.shape_of(context);
  const Tensor qkv = saved.attention.qkv = memory.results->allocate({context.tokens(), shape.packed_cols()}, context.dtype);
  // A forward that runs again saves in the workspace what must outlast the scope below.
  query_expand_.reserve(context, context.tokens(), *memory.inputs, saved.query.expand);
  key_value_expand_.reserve(context, context.tokens(), *memory.inputs, saved.key_value.expand);
  {
    const ArenaScope scope(context.workspace);
    const Tensor key_value = context.workspace.allocate({context.tokens(), key_value_expand_.rows()}, context.dtype);
    key_value_expand_.forward(context, {.input = saved.key_value.all, .output = key_value}, saved.key_value.expand);
    context.ops.latent_heads(shape, {.q = queries(context, saved),
                                     .key_value = key_value,
                                     .rotated = saved.rotated,
                                     .cos_sin = angles(context, context.rotary.full),
                                     .interleaved = interleaved_,
                                     .documents = context.position_origins(),
                                     .qkv = qkv});
  }
  attention_.forward(context, slice_keys(context, saved), *memory.inputs, *memory.results, saved.attention);
}

void LatentAttentionBlock::cached_forward(const BlockContext& context, const CachedForwardArgs& args) const {
  const ArenaScope scope(context.workspace);
  LatentSaved saved;
  saved.input = args.input;
  compress(context, {&context.workspace, &context.workspace, nullptr}, saved);
  query_expand_.reserve(context, context.tokens(), context.workspace, saved.query.expand);
  SegmentShape shape = attention_.shape_of(context);
  shape.first_query = args.first, shape.keys += args.first;
  const Tensor heads = context.workspace.allocate({context.tokens(), shape.output_cols()}, context.dtype);
  context.ops.cached_latent_attention(shape, {.q = queries(context, saved),
                                              .latent = saved.key_value.all,
                                              .rotated = saved.rotated,
                                              .expand = key_value_expand_.merged(context),
                                              .cos_sin = context.rotary.full,
                                              .interleaved = interleaved_,
                                              .cache = args.cache,
                                              .out = heads});
  ResidualProjection::Saved unused;
  out_.forward(context, {.input = heads, .residual = args.input, .output = args.output, .results = &context.workspace}, unused);
}

// Every rank has the gradient through its own heads. Their sum over the ranks is divided by rows again, as the forward's are.
Tensor LatentAttentionBlock::latent_backward(const BlockContext& context, const Tensor& output_grad,
                                             const AdaptedMatrix& expand, const BoundTensor& norm, WeightGradients& gradients,
                                             const Latent& latent) const {
  const Tensor grad = context.workspace.allocate(latent.own.shape, context.dtype);
  const ArenaScope scope(context.workspace);
  const Tensor summed = context.workspace.allocate(latent.own.shape, context.dtype);
  expand.backward(context, {.output_grad = output_grad, .input = latent.all, .input_grad = summed}, gradients, latent.expand);
  context.ops.rms_norm_backward({.dy = summed,
                                 .x = latent.own,
                                 .weight = norm.weight,
                                 .inv_rms = latent.inv_rms,
                                 .dx = grad,
                                 .dweight = sums_of(context, norm)});
  return grad;
}

Tensor LatentAttentionBlock::expand_backward(const BlockContext& context, const Tensor& qkv_grad, WeightGradients& gradients,
                                             const LatentSaved& saved) const {
  const std::int64_t tokens = context.tokens(), rows = context.shard_rows();
  const Tensor normed_grad = context.workspace.allocate({rows, norm_.hidden()}, context.dtype);
  const ArenaScope scope(context.workspace);
  const Tensor query_grad = gradients.allocate({tokens, query_expand_.rows()}, context.dtype),
               key_value_grad = gradients.allocate({tokens, key_value_expand_.rows()}, context.dtype),
               compressed_grad = gradients.allocate({rows, sizes_.compressed_columns()}, context.dtype);
  const Tensor rotated_grad = context.workspace.allocate({tokens, sizes_.rotated}, DType::f32),
               own_rotated = context.workspace.allocate({rows, sizes_.rotated}, DType::f32);
  context.ops.latent_heads_backward(attention_.shape_of(context), {.dqkv = qkv_grad,
                                                                   .cos_sin = angles(context, context.rotary.full),
                                                                   .interleaved = interleaved_,
                                                                   .documents = context.position_origins(),
                                                                   .dq = query_grad,
                                                                   .dkey_value = key_value_grad,
                                                                   .drotated = rotated_grad});
  context.ops.scatter_sum({.tp = context.tp, .full = rotated_grad, .out = own_rotated});
  const auto place = [&](const Tensor& part, std::int64_t first) {
    context.ops.copy_columns({.source = part, .target = compressed_grad, .target_begin = first, .count = part.cols()});
  };
  if (has_query_latent()) place(latent_backward(context, query_grad, query_expand_, query_norm_, gradients, saved.query), 0);
  place(latent_backward(context, key_value_grad, key_value_expand_, key_norm_, gradients, saved.key_value), sizes_.query_rank);
  place(own_rotated, sizes_.query_rank + sizes_.key_value_rank);
  compress_.backward_own(context, {.output_grad = compressed_grad, .input = saved.normed, .input_grad = normed_grad},
                         context.first_own_row(), gradients, saved.compress_adapter);
  if (has_query_latent()) return normed_grad;
  query_expand_.backward(
      context, {.output_grad = query_grad, .input = saved.all_normed, .residual = normed_grad, .input_grad = normed_grad},
      gradients, saved.query.expand);
  return normed_grad;
}

void LatentAttentionBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                    Saved& saved_base) const {
  auto& saved = static_cast<LatentSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  if (runs_forward_again(context)) attend(context, saved.input, backward_memory(context, gradients), saved);
  const Tensor qkv_grad = context.workspace.allocate(saved.attention.qkv.shape, context.dtype);
  {
    const ArenaScope inner(context.workspace);
    const Tensor heads_grad = context.workspace.allocate(saved.attention.heads.shape, context.dtype);
    out_.backward(context, {.output_grad = args.output_grad, .input = saved.attention.heads, .input_grad = heads_grad},
                  gradients, saved.out);
    attention_.backward(context, {.keys = slice_keys(context, saved), .heads_grad = heads_grad, .qkv_grad = qkv_grad},
                        saved.attention);
  }
  norm_.backward(context, {.dy = expand_backward(context, qkv_grad, gradients, saved),
                           .x = saved.input,
                           .statistics = saved.statistics,
                           .residual = args.output_grad,
                           .dx = args.input_grad,
                           .residual_sums = out_.residual_sums(context)});
}

}  // namespace pipetrain
