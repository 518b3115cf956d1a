#include "model/normed_projection.hpp"

namespace pipetrain {

void NormedProjection::bind(const BoundTensor& norm, const BoundTensor& matrix) {
  norm_ = norm;
  matrix_ = matrix;
}

Tensor NormedProjection::forward(const BlockContext& context, const Tensor& input, Arena& memory, Saved& saved) const {
  const std::int64_t hidden = norm_.weight.elements();
  saved.input = input;
  saved.inv_rms = memory.allocate({context.shard_rows()}, DType::f32);
  saved.normed = memory.allocate({context.tokens(), hidden}, context.dtype);
  const Tensor output = memory.allocate({context.tokens(), matrix_.weight.rows()}, context.dtype);

  const ArenaScope scope(context.workspace);
  const Tensor shard =
      context.gathers() ? context.workspace.allocate({context.shard_rows(), hidden}, context.dtype) : saved.normed;
  context.ops.rms_norm(input, norm_.weight, eps_, shard, saved.inv_rms);
  context.ops.gather_matmul(context.tp, MatmulKind::forward, shard, matrix_.weight, saved.normed, output);
  return output;
}

void NormedProjection::backward(const BlockContext& context, const Tensor& output_grad, const Tensor* residual,
                                const Tensor& input_grad, WeightGradients& gradients, const Saved& saved) const {
  gradients.add(output_grad, saved.normed, matrix_.grad);

  const ArenaScope scope(context.workspace);
  const Tensor normed_grad = context.workspace.allocate(saved.input.shape, context.dtype);
  context.ops.matmul_scatter(context.tp, MatmulKind::input_grad, output_grad, matrix_.weight, nullptr, normed_grad);
  context.ops.rms_norm_backward(normed_grad, saved.input, norm_.weight, saved.inv_rms, residual, input_grad, norm_.grad);
}

}  // namespace pipetrain
