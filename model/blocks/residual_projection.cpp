#include "model/blocks/residual_projection.hpp"

namespace pipetrain {

void ResidualProjection::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(roles_.weight);
  if (roles_.bias) bias_ = tensors.at(*roles_.bias);
}

void ResidualProjection::forward(const BlockContext& context, const ForwardArgs& args) const {
  const bool drops = dropout_.active(context);
  context.ops.matmul_scatter(context.tp, MatmulKind::forward,
                             {.in = args.input,
                              .w = matrix_.weight,
                              .residual = drops ? std::nullopt : std::optional(args.residual),
                              .out = args.output});
  if (roles_.bias) context.ops.add_bias(args.output, bias_.weight);
  if (!drops) return;
  DropoutArgs dropout = dropout_.of_shard(context, args.output, args.output);
  dropout.residual = args.residual;
  context.ops.dropout(dropout);
}

Tensor ResidualProjection::undropped(const BlockContext& context, const Tensor& output_grad, const Tensor& gathered) const {
  const std::int64_t first = context.gathers() ? context.tp.shard_begin(context.tokens()) : 0;
  const Tensor grad = gathered.row_range(first, first + context.shard_rows());
  context.ops.dropout(dropout_.of_shard(context, output_grad, grad));
  return grad;
}

void ResidualProjection::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients) const {
  const bool drops = dropout_.active(context);
  const Tensor gathered = context.gathers() || drops
                              ? gradients.allocate({context.tokens(), args.output_grad.shape[1]}, context.dtype)
                              : args.output_grad;
  const Tensor shard = drops ? undropped(context, args.output_grad, gathered) : args.output_grad;
  if (roles_.bias) context.ops.bias_grad(shard, bias_.grad);
  context.ops.gather_matmul(context.tp, MatmulKind::input_grad,
                            {.shard = shard, .w = matrix_.weight, .full = gathered, .out = args.input_grad});
  gradients.add({.dy = gathered, .x = args.input, .dw = matrix_.grad});
}

}  // namespace pipetrain
