#include "model/attention/adapted_matrix.hpp"

namespace pipetrain {

void AdaptedMatrix::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(role_);
  if (adapter_) adapter_->bind(tensors);
}

void AdaptedMatrix::reserve(const BlockContext& context, std::int64_t rows, Arena& kept, LowRankAdapter::Saved& saved) const {
  if (adapter_ && !context.base_alone) adapter_->reserve(rows, context.dtype, kept, saved);
}

void AdaptedMatrix::forward(const BlockContext& context, const ForwardArgs& args, const LowRankAdapter::Saved& saved) const {
  if (!adapter_ || context.base_alone)
    return multiply_alone(context.ops, {MatmulKind::forward, args.input, matrix_.weight, args.output});
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.output.shape, context.dtype);
  adapter_->forward(context.alone(), {}, {.input = args.input, .output = added, .first_row = args.first_row}, saved);
  context.ops.matmul_scatter(
      {.kind = MatmulKind::forward, .in = args.input, .w = matrix_.weight, .residual = added, .out = args.output});
}

Tensor AdaptedMatrix::merged(const BlockContext& context) const {
  return adapter_ && !context.base_alone ? adapter_->merged(context, matrix_.weight) : matrix_.weight;
}

void AdaptedMatrix::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                             const LowRankAdapter::Saved& saved) const {
  gradients.add({.dy = args.output_grad, .x = args.input, .dw = matrix_.grad});
  const ArenaScope scope(context.workspace);
  std::optional<Tensor> residual = args.residual;
  if (adapter_) {
    const Tensor own = context.own_rows(args.input);
    const Tensor added = context.workspace.allocate(args.input_grad.shape, context.dtype);
    adapter_->backward_columns(
        context, {.output_grad = args.output_grad, .input = own, .residual = residual, .input_grad = added}, gradients, saved);
    residual = added;
  }
  context.ops.matmul_scatter({.tp = context.tp,
                              .kind = MatmulKind::input_grad,
                              .in = args.output_grad,
                              .w = matrix_.weight,
                              .residual = residual,
                              .out = args.input_grad});
}

void AdaptedMatrix::backward_own(const BlockContext& context, const BackwardArgs& args, std::int64_t first_row,
                                 WeightGradients& gradients, const LowRankAdapter::Saved& saved) const {
  WeightGradients partial = gradients.unannounced();
  partial.add({.dy = args.output_grad, .x = args.input, .dw = matrix_.grad});
  if (!adapter_)
    return multiply_alone(context.ops, {MatmulKind::input_grad, args.output_grad, matrix_.weight, args.input_grad});
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.input_grad.shape, context.dtype);
  adapter_->backward_columns(
      context.alone(), {.output_grad = args.output_grad, .input = args.input, .input_grad = added, .first_row = first_row},
      partial, saved);
  context.ops.matmul_scatter(
      {.kind = MatmulKind::input_grad, .in = args.output_grad, .w = matrix_.weight, .residual = added, .out = args.input_grad});
}

}  // namespace pipetrain
