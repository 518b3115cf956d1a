#include "model/blocks/residual_projection.hpp"

namespace pipetrain {

void ResidualProjection::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(roles_.weight);
  if (roles_.bias) bias_ = tensors.at(*roles_.bias);
}

void ResidualProjection::forward(const BlockContext& context, const Tensor& input, const Tensor& residual,
                                 const Tensor& output) const {
  context.ops.matmul_scatter(context.tp, MatmulKind::forward,
                             {.in = input, .w = matrix_.weight, .residual = residual, .out = output});
  if (roles_.bias) context.ops.add_bias(output, bias_.weight);
}

void ResidualProjection::backward(const BlockContext& context, const Tensor& output_grad, const Tensor& input,
                                  const Tensor& input_grad, WeightGradients& gradients) const {
  if (roles_.bias) context.ops.bias_grad(output_grad, bias_.grad);
  const Tensor gathered =
      context.gathers() ? gradients.allocate({context.tokens(), output_grad.shape[1]}, context.dtype) : output_grad;
  context.ops.gather_matmul(context.tp, MatmulKind::input_grad,
                            {.shard = output_grad, .w = matrix_.weight, .full = gathered, .out = input_grad});
  gradients.add({.dy = gathered, .x = input, .dw = matrix_.grad});
}

}  // namespace pipetrain
