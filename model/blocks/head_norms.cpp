#include "model/blocks/head_norms.hpp"

namespace pipetrain {

void HeadNorms::bind(const BoundTensors& tensors) {
  query_weight_ = tensors.at(TensorRole::query_norm_weight);
  key_weight_ = tensors.at(TensorRole::key_norm_weight);
}

void HeadNorms::forward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv, Arena& memory,
                        Saved& saved) const {
  normalise(context, queries(shape), qkv, memory, saved.queries);
  normalise(context, keys(shape), qkv, memory, saved.keys);
}

void HeadNorms::backward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv_grad,
                         const Saved& saved) const {
  normalise_back(context, queries(shape), qkv_grad, saved.queries);
  normalise_back(context, keys(shape), qkv_grad, saved.keys);
}

// The heads' columns are copied next to each other, so that the norm takes them as rows.
void HeadNorms::normalise(const BlockContext& context, const Heads& heads, const Tensor& qkv, Arena& memory, Kept& kept) const {
  const std::int64_t tokens = qkv.rows(), columns = heads.count * head_dim_;
  const Shape rows{tokens * heads.count, head_dim_};
  kept.input = memory.allocate({tokens, columns}, context.dtype);
  kept.inv_rms = memory.allocate({rows[0]}, DType::f32);
  const ArenaScope scope(context.workspace);
  const Tensor normed = context.workspace.allocate({tokens, columns}, context.dtype);
  context.ops.copy_columns({.source = qkv, .source_begin = heads.first_column, .target = kept.input, .count = columns});
  context.ops.rms_norm({.x = kept.input.reshaped(rows),
                        .weight = heads.weight.weight,
                        .eps = eps_,
                        .y = normed.reshaped(rows),
                        .inv_rms = kept.inv_rms});
  context.ops.copy_columns({.source = normed, .target = qkv, .target_begin = heads.first_column, .count = columns});
}

void HeadNorms::normalise_back(const BlockContext& context, const Heads& heads, const Tensor& qkv_grad,
                               const Kept& kept) const {
  const std::int64_t tokens = qkv_grad.rows(), columns = heads.count * head_dim_;
  const Shape rows{tokens * heads.count, head_dim_};
  const ArenaScope scope(context.workspace);
  const Tensor grad = context.workspace.allocate({tokens, columns}, context.dtype);
  context.ops.copy_columns({.source = qkv_grad, .source_begin = heads.first_column, .target = grad, .count = columns});
  context.ops.rms_norm_backward({.dy = grad.reshaped(rows),
                                 .x = kept.input.reshaped(rows),
                                 .weight = heads.weight.weight,
                                 .inv_rms = kept.inv_rms,
                                 .dx = kept.input.reshaped(rows),
                                 .dweight = sums_of(context, heads.weight)});
  context.ops.copy_columns({.source = kept.input, .target = qkv_grad, .target_begin = heads.first_column, .count = columns});
}

}  // namespace pipetrain
