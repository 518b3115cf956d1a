#include "model/blocks/slice_attention.hpp"

#include <cassert>

namespace pipetrain {
namespace {

// Calls use(segment, i) for the keys of each slice.
template <class Use>
void each_segment(const BlockContext& context, const AttentionShape& shape, const SliceKeys& keys, Use use) {
  SegmentShape segment{.batch = shape.batch,
                       .queries = shape.sequence,
                       .first_query = context.slice->first,
                       .heads = shape.heads,
                       .kv_heads = shape.kv_heads,
                       .head_dim = shape.head_dim};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    segment.keys = keys[i].rows() / shape.batch;
    use(segment, i);
    segment.first_key += segment.keys;
  }
}

}  // namespace

void slice_attention(const BlockContext& context, const AttentionShape& shape, const SliceKeys& keys,
                     const SliceOutputs& outputs) {
  const ArenaScope scope(context.workspace);
  const Tensor& q = keys.back();
  const bool rounds = keys.size() > 1 && context.dtype != DType::f32;
  const Tensor sum = rounds ? context.workspace.allocate(outputs.out.shape, DType::f32) : outputs.out;
  Tensor part, part_sums;
  if (keys.size() > 1) {
    part = context.workspace.allocate(outputs.out.shape, DType::f32);
    part_sums = context.workspace.allocate(outputs.log_sum_exp.shape, DType::f32);
  }
  each_segment(context, shape, keys, [&](const SegmentShape& segment, std::size_t i) {
    if (i == 0)
      return context.ops.segment_attention(segment, {.q = q, .kv = keys[i], .out = sum, .log_sum_exp = outputs.log_sum_exp});
    context.ops.segment_attention(segment, {.q = q, .kv = keys[i], .out = part, .log_sum_exp = part_sums});
    context.ops.merge_attention(segment,
                                {.part = part, .part_log_sum_exp = part_sums, .out = sum, .log_sum_exp = outputs.log_sum_exp});
  });
  if (rounds) context.ops.round(sum, outputs.out);
}

void slice_attention_backward(const BlockContext& context, const AttentionShape& shape, const SliceKeys& keys,
                              const SliceOutputs& outputs, const SliceGradients& gradients) {
  assert(context.slice->key_gradients.size() == keys.size());
  const ArenaScope scope(context.workspace);
  const Tensor query_gradient = context.workspace.allocate(outputs.out.shape, DType::f32);
  each_segment(context, shape, keys, [&](const SegmentShape& segment, std::size_t i) {
    context.ops.segment_attention_backward(segment, {.dout = gradients.out,
                                                     .q = keys.back(),
                                                     .kv = keys[i],
                                                     .out = outputs.out,
                                                     .log_sum_exp = outputs.log_sum_exp,
                                                     .dq = query_gradient,
                                                     .dkv = context.slice->key_gradients[i],
                                                     .accumulate_dq = i == 0 ? Accumulate::no : Accumulate::yes});
  });
  const Tensor& key_gradient = context.slice->key_gradients.back();
  const std::int64_t queries = query_gradient.cols();
  context.ops.copy_columns({.source = query_gradient, .target = gradients.qkv, .count = queries});
  context.ops.copy_columns(
      {.source = key_gradient, .target = gradients.qkv, .target_begin = queries, .count = key_gradient.cols()});
}

}  // namespace pipetrain
