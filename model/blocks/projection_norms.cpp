#include "model/blocks/projection_norms.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

// Adds up the ranks' sums of their columns. If several ranks hold copies of each column, the first holders of all columns are
// one team, the second ones another, and so on; each team adds up its own sums.
void add_over_ranks(const BlockContext& context, std::int64_t copies, const Tensor& sums) {
  context.ops.sum_copies({.tp = context.tp, .values = sums, .slice = context.tp.rank() % copies, .slices = copies});
}

}  // namespace

ProjectionNorms::ProjectionNorms(const ModelConfig& config)
    : query_columns_(config.heads * config.head_dim),
      key_columns_(config.kv_heads * config.head_dim),
      kv_heads_(config.kv_heads),
      eps_(static_cast<float>(config.norm_eps)) {}

void ProjectionNorms::bind(const BoundTensors& tensors) {
  query_weight_ = tensors.at(TensorRole::query_norm_weight);
  key_weight_ = tensors.at(TensorRole::key_norm_weight);
}

ProjectionNorms::Columns ProjectionNorms::queries(const SegmentShape& shape) const {
  return {query_weight_, 0, shape.query_cols(), query_columns_, 1};
}

ProjectionNorms::Columns ProjectionNorms::keys(const BlockContext& context, const SegmentShape& shape) const {
  const std::int64_t copies = std::max<std::int64_t>(context.tp.size() / kv_heads_, 1);
  return {key_weight_, shape.query_cols(), shape.kv_heads * shape.head_dim, key_columns_, copies};
}

void ProjectionNorms::forward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv, Arena& memory,
                              Saved& saved) const {
  normalise(context, queries(shape), qkv, memory, saved.queries);
  normalise(context, keys(context, shape), qkv, memory, saved.keys);
}

void ProjectionNorms::backward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv_grad,
                               const Saved& saved) const {
  normalise_back(context, queries(shape), qkv_grad, saved.queries);
  normalise_back(context, keys(context, shape), qkv_grad, saved.keys);
}

// The columns are copied next to each other, so that the norm takes them as rows.
void ProjectionNorms::normalise(const BlockContext& context, const Columns& columns, const Tensor& qkv, Arena& memory,
                                Kept& kept) const {
  const Shape shape{qkv.rows(), columns.count};
  kept.input = memory.allocate(shape, context.dtype);
  kept.inv_rms = memory.allocate({shape[0]}, DType::f32);
  const ArenaScope scope(context.workspace);
  const Tensor normed = context.workspace.allocate(shape, context.dtype);
  context.ops.copy_columns({.source = qkv, .source_begin = columns.first, .target = kept.input, .count = columns.count});
  if (context.tp.size() == 1) {
    context.ops.rms_norm({.x = kept.input, .weight = columns.weight.weight, .eps = eps_, .y = normed, .inv_rms = kept.inv_rms});
  } else {
    const Tensor squares = context.workspace.allocate({shape[0]}, DType::f32);
    context.ops.row_dots({.a = kept.input, .b = kept.input, .sums = squares});
    add_over_ranks(context, columns.copies, squares);
    context.ops.split_norm({.x = kept.input,
                            .weight = columns.weight.weight,
                            .square_sums = squares,
                            .columns = columns.all,
                            .eps = eps_,
                            .y = normed,
                            .inv_rms = kept.inv_rms});
  }
  context.ops.copy_columns({.source = normed, .target = qkv, .target_begin = columns.first, .count = columns.count});
}

void ProjectionNorms::normalise_back(const BlockContext& context, const Columns& columns, const Tensor& qkv_grad,
                                     const Kept& kept) const {
  const Shape shape{qkv_grad.rows(), columns.count};
  const ArenaScope scope(context.workspace);
  const Tensor grad = context.workspace.allocate(shape, context.dtype);
  context.ops.copy_columns({.source = qkv_grad, .source_begin = columns.first, .target = grad, .count = columns.count});
  if (context.tp.size() == 1) {
    context.ops.rms_norm_backward({.dy = grad,
                                   .x = kept.input,
                                   .weight = columns.weight.weight,
                                   .inv_rms = kept.inv_rms,
                                   .dx = kept.input,
                                   .dweight = sums_of(context, columns.weight)});
  } else {
    const Tensor dots = context.workspace.allocate({shape[0]}, DType::f32);
    context.ops.row_dots({.a = grad, .b = kept.input, .weight = columns.weight.weight, .sums = dots});
    add_over_ranks(context, columns.copies, dots);
    context.ops.split_norm_backward({.dy = grad,
                                     .x = kept.input,
                                     .weight = columns.weight.weight,
                                     .inv_rms = kept.inv_rms,
                                     .dots = dots,
                                     .columns = columns.all,
                                     .dx = kept.input,
                                     .dweight = sums_of(context, columns.weight)});
  }
  context.ops.copy_columns({.source = kept.input, .target = qkv_grad, .target_begin = columns.first, .count = columns.count});
}

}  // namespace pipetrain
