#include "model/normed_projection.hpp"

namespace pipetrain {

void NormedProjection::bind(const BoundTensor& norm, const BoundTensor& matrix) {
  norm_ = norm;
  matrix_ = matrix;
}

Tensor NormedProjection::forward(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                                 Saved& saved) const {
  const std::int64_t hidden = norm_.weight.elements();
  Arena* const kept = context.gathers() ? memory.inputs : memory.remade;
  saved.input = input;
  saved.inv_rms = memory.results->allocate({context.shard_rows()}, DType::f32);
  saved.normed = kept ? kept->allocate({context.tokens(), hidden}, context.dtype) : Tensor{};
  const Tensor output = memory.results->allocate({context.tokens(), matrix_.weight.rows()}, context.dtype);

  const ArenaScope scope(context.workspace);
  // The norm writes where the gathered rows will be, so that its own need no copy.
  const std::int64_t first = context.gathers() ? context.tp.shard_begin(context.tokens()) : 0;
  const Tensor shard = kept ? saved.normed.row_range(first, first + context.shard_rows())
                            : context.workspace.allocate({context.shard_rows(), hidden}, context.dtype);
  context.ops.rms_norm(input, norm_.weight, eps_, shard, saved.inv_rms);
  context.ops.gather_matmul(context.tp, MatmulKind::forward, shard, matrix_.weight, kept ? saved.normed : shard, output);
  return output;
}

// Only where nothing is gathered; writes the same inv_rms once more.
Tensor NormedProjection::norm_again(const BlockContext& context, Arena& memory, const Saved& saved) const {
  const Tensor normed = memory.allocate(saved.input.shape, context.dtype);
  context.ops.rms_norm(saved.input, norm_.weight, eps_, normed, saved.inv_rms);
  return normed;
}

void NormedProjection::backward(const BlockContext& context, const Tensor& output_grad, const Tensor* residual,
                                const Tensor& input_grad, WeightGradients& gradients, const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  const Tensor normed = saved.normed.shape.rank() > 0 ? saved.normed : norm_again(context, gradients.memory(), saved);
  const Tensor normed_grad = context.workspace.allocate(saved.input.shape, context.dtype);
  gradients.add_and_scatter(context.tp, output_grad, normed, matrix_.weight, matrix_.grad, normed_grad);
  context.ops.rms_norm_backward(normed_grad, saved.input, norm_.weight, saved.inv_rms, residual, input_grad, norm_.grad);
}

}  // namespace pipetrain
