#include "model/blocks/residual_projection.hpp"

namespace pipetrain {

void ResidualProjection::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(roles_.weight);
  if (roles_.bias) bias_ = tensors.at(*roles_.bias);
}

void ResidualProjection::forward(const BlockContext& context, const ForwardArgs& args) const {
  context.ops.matmul_scatter(context.tp, MatmulKind::forward,
                             {.in = args.input, .w = matrix_.weight, .residual = args.residual, .out = args.output});
  if (roles_.bias) context.ops.add_bias(args.output, bias_.weight);
}

void ResidualProjection::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients) const {
  if (roles_.bias) context.ops.bias_grad(args.output_grad, bias_.grad);
  const Tensor gathered =
      context.gathers() ? gradients.allocate({context.tokens(), args.output_grad.shape[1]}, context.dtype) : args.output_grad;
  context.ops.gather_matmul(context.tp, MatmulKind::input_grad,
                            {.shard = args.output_grad, .w = matrix_.weight, .full = gathered, .out = args.input_grad});
  gradients.add({.dy = gathered, .x = args.input, .dw = matrix_.grad});
}

}  // namespace pipetrain
