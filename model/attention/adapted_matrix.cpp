#include "model/attention/adapted_matrix.hpp"

namespace pipetrain {
namespace {

BlockContext without_ranks(const BlockContext& context) {
  BlockContext own = context;
  own.tp = {};
  return own;
}

}  // namespace

void AdaptedMatrix::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(role_);
  if (adapter_) adapter_->bind(tensors);
}

void AdaptedMatrix::forward(const BlockContext& context, const ForwardArgs& args, Arena& kept,
                            LowRankAdapter::Saved& saved) const {
  if (!adapter_ || context.base_alone)
    return context.ops.gather_matmul(
        {.kind = MatmulKind::forward, .shard = args.input, .w = matrix_.weight, .full = args.input, .out = args.output});
  adapter_->reserve(args.input.rows(), context.dtype, kept, saved);
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.output.shape, context.dtype);
  adapter_->forward(without_ranks(context), {}, {.input = args.input, .output = added, .first_row = args.first_row}, saved);
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
    const std::int64_t first = context.gathers() ? context.tp.shard_begin(context.tokens()) : 0;
    const Tensor own = args.input.row_range(first, first + context.shard_rows());
    const Tensor added = context.workspace.allocate(args.input_grad.shape, context.dtype);
    adapter_->backward_columns(context, {args.output_grad, own, residual, added}, gradients, saved);
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
    return context.ops.gather_matmul({.kind = MatmulKind::input_grad,
                                      .shard = args.output_grad,
                                      .w = matrix_.weight,
                                      .full = args.output_grad,
                                      .out = args.input_grad});
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.input_grad.shape, context.dtype);
  adapter_->backward_columns(
      without_ranks(context),
      {.output_grad = args.output_grad, .input = args.input, .input_grad = added, .first_row = first_row}, partial, saved);
  context.ops.matmul_scatter(
      {.kind = MatmulKind::input_grad, .in = args.output_grad, .w = matrix_.weight, .residual = added, .out = args.input_grad});
}

}  // namespace pipetrain
