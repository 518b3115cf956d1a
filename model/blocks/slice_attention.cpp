#include "model/blocks/slice_attention.hpp"

namespace pipetrain {
namespace {

// Returns the keys and values of all slices, sequence by sequence: [batch R, 2 Hkv D], or the only slice's own matrix.
Tensor keys_of(const BlockContext& context, const SegmentShape& shape, const SliceKeys& slices) {
  if (slices.size() == 1) return slices.front();
  const Tensor all = context.workspace.allocate(context.slice->key_gradients.shape, context.dtype);
  gather_keys(context.ops, shape.batch, slices, all);
  return all;
}

}  // namespace

void slice_attention(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of) {
  const ArenaScope scope(context.workspace);
  context.ops.attention(shape, {.q = of.keys.back(),
                                .kv = keys_of(context, shape, of.keys),
                                .out = of.out,
                                .log_sum_exp = of.log_sum_exp,
                                .documents = context.documents,
                                .dropout = of.dropout});
}

void slice_attention_backward(const BlockContext& context, const SegmentShape& shape, const SliceAttention& of,
                              const SliceGradients& gradients) {
  const ArenaScope scope(context.workspace);
  const Tensor& key_gradients = context.slice->key_gradients;
  context.ops.attention_backward(shape, {.dout = gradients.out,
                                         .q = of.keys.back(),
                                         .kv = keys_of(context, shape, of.keys),
                                         .out = of.out,
                                         .log_sum_exp = of.log_sum_exp,
                                         .dq = gradients.qkv,
                                         .dkv = key_gradients,
                                         .accumulate_dkv = Accumulate::yes,
                                         .documents = context.documents,
                                         .dropout = of.dropout});
  copy_sequences(context.ops, {shape.batch, shape.queries, key_gradients.cols()}, {key_gradients, context.slice->first},
                 {gradients.qkv, 0, shape.query_cols()});
}

}  // namespace pipetrain
