#include "model/blocks/low_rank_adapter.hpp"

namespace pipetrain {
namespace {

constexpr TensorParallel one_rank = {};

}  // namespace

std::optional<LowRankAdapter> LowRankAdapter::of(const ModelConfig& config, const Block& block, TensorRole matrix,
                                                 const TensorParallel& tp) {
  auto targets = find_adapter_targets(config, block, matrix, tp);
  return targets ? std::optional(LowRankAdapter(std::move(*targets))) : std::nullopt;
}

void LowRankAdapter::bind(const BoundTensors& tensors) {
  in_ = tensors.at(targets_.in_role);
  targets_.bind(tensors);
}

Tensor LowRankAdapter::second(const BlockContext& context) const {
  if (targets_.is_single()) return targets_.all.front().out.weight;
  const Tensor whole = context.workspace.allocate({targets_.rows, targets_.rank}, context.dtype);
  std::vector<MatrixBlock> blocks;
  for (const AdapterTarget& target : targets_.all) blocks.push_back({target.out.weight, target.row, target.column});
  context.ops.join_blocks({.blocks = blocks, .out = whole});
  return whole;
}

Tensor LowRankAdapter::merged(const BlockContext& context, const Tensor& weight) const {
  const Tensor sum = context.workspace.allocate(weight.shape, context.dtype);
  const ArenaScope scope(context.workspace);
  const Tensor unscaled = second(context), scaled = context.workspace.allocate(unscaled.shape, context.dtype);
  context.ops.zero(scaled);
  for (const AdapterTarget& target : targets_.all)
    context.ops.scale({.x = unscaled.row_range(target.row, target.row + target.rows),
                       .out = scaled.row_range(target.row, target.row + target.rows),
                       .factor = target.scale,
                       .exact = true});
  context.ops.matmul_scatter(
      {.tp = one_rank, .kind = MatmulKind::input_grad, .in = scaled, .w = in_.weight, .residual = weight, .out = sum});
  return sum;
}

void LowRankAdapter::drop_inputs(const BlockContext& context, const AdapterTarget& target, const InputRows& input,
                                 const Tensor& out, const std::optional<Tensor>& residual) const {
  target.dropout.drop_part(context, {.x = input.values,
                                     .out = out,
                                     .residual = residual,
                                     .first_row = input.first_row,
                                     .first_column = targets_.first_column});
}

void LowRankAdapter::lower(const BlockContext& context, const TensorParallel& tp, const InputRows& input,
                           const Tensor& low) const {
  const std::optional<float> scale = targets_.common_scale();
  const auto multiply = [&](const Tensor& values, const Tensor& w, const Tensor& out) {
    context.ops.matmul_scatter(
        {.tp = tp, .kind = MatmulKind::forward, .in = values, .w = w, .out = out, .factor = scale.value_or(1)});
  };
  if (!drops(context)) {
    multiply(input.values, in_.weight, low);
  } else {
    for (const AdapterTarget& target : targets_.all) {
      const ArenaScope scope(context.workspace);
      const Tensor dropped = context.workspace.allocate(input.values.shape, context.dtype);
      drop_inputs(context, target, input, dropped);
      const bool is_all = target.rank == targets_.rank;
      const Tensor own = is_all ? low : context.workspace.allocate({low.rows(), target.rank}, context.dtype);
      multiply(dropped, first_of(target), own);
      if (!is_all)
        context.ops.copy_columns({.source = own, .target = low, .target_begin = target.column, .count = target.rank});
    }
  }
  if (!scale) targets_.scale(context, low);
}

void LowRankAdapter::forward(const BlockContext& context, const TensorParallel& inputs, const ForwardArgs& args,
                             const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  lower(context, inputs, {args.input, args.first_row}, saved.low);
  context.ops.matmul_scatter({.tp = one_rank,
                              .kind = MatmulKind::forward,
                              .in = saved.low,
                              .w = second(context),
                              .residual = args.residual,
                              .out = args.output});
}

Tensor LowRankAdapter::low_grad(const BlockContext& context, const TensorParallel& tp, const Tensor& output_grad,
                                std::int64_t rows, WeightGradients& gradients) const {
  const Tensor low = gradients.allocate({rows, targets_.rank}, context.dtype);
  const ArenaScope scope(context.workspace);
  const std::optional<float> scale = targets_.common_scale();
  context.ops.matmul_scatter({.tp = tp,
                              .kind = MatmulKind::input_grad,
                              .in = output_grad,
                              .w = second(context),
                              .out = low,
                              .factor = scale.value_or(1)});
  if (!scale) targets_.scale(context, low);
  return low;
}

void LowRankAdapter::find_input_grad(const BlockContext& context, const Tensor& low_grad, const std::optional<Tensor>& residual,
                                     const InputRows& input_grad) const {
  const auto multiply = [&](const Tensor& low, const Tensor& w, const Tensor& out, const std::optional<Tensor>& addend) {
    context.ops.matmul_scatter(
        {.tp = one_rank, .kind = MatmulKind::input_grad, .in = low, .w = w, .residual = addend, .out = out});
  };
  const Tensor& sum = input_grad.values;
  if (!drops(context)) return multiply(low_grad, in_.weight, sum, residual);
  std::optional<Tensor> so_far = residual;
  for (const AdapterTarget& target : targets_.all) {
    const ArenaScope scope(context.workspace);
    const Tensor own = context.workspace.allocate(sum.shape, sum.dtype);
    multiply(targets_.columns_of(context, low_grad, target, context.workspace), first_of(target), own, {});
    drop_inputs(context, target, {own, input_grad.first_row}, sum, so_far);
    so_far = sum;
  }
}

void LowRankAdapter::add_first_grads(const BlockContext& context, const Tensor& low_grad, const InputRows& input,
                                     WeightGradients& gradients) const {
  if (!drops(context)) return gradients.add({.dy = low_grad, .x = input.values, .dw = in_.grad});
  for (const AdapterTarget& target : targets_.all) {
    const Tensor dropped = gradients.allocate(input.values.shape, context.dtype);
    drop_inputs(context, target, input, dropped);
    gradients.add({.dy = targets_.columns_of(context, low_grad, target, gradients.memory()),
                   .x = dropped,
                   .dw = in_.grad.row_range(target.column, target.column + target.rank)});
  }
}

void LowRankAdapter::add_normed_first_grads(const BlockContext& context, const Tensor& low_grad, const Tensor& input,
                                            const Norm::Factors& norm, WeightGradients& gradients) const {
  const Tensor weighed = gradients.allocate(low_grad.shape, context.dtype);
  context.ops.weigh_rows({.x = low_grad, .weights = norm.rows, .y = weighed});
  gradients.add_targets({.dy = weighed,
                         .x = input,
                         .product = gradients.allocate(in_.grad.shape, DType::f32),
                         .targets = {{in_.grad}},
                         .factors = norm.columns,
                         .offset = norm.offset});
}

void LowRankAdapter::add_second_grads(const Tensor& output_grad, const Tensor& low, WeightGradients& gradients) const {
  if (targets_.is_single()) return gradients.add({.dy = output_grad, .x = low, .dw = targets_.all.front().out.grad});
  TargetGradArgs args{
      .dy = output_grad, .x = low, .product = gradients.allocate({targets_.rows, targets_.rank}, DType::f32), .targets = {}};
  for (const AdapterTarget& target : targets_.all) args.targets.push_back({target.out.grad, target.row, target.column});
  gradients.add_targets(std::move(args));
}

void LowRankAdapter::backward_columns(const BlockContext& context, const ColumnsBackwardArgs& args, WeightGradients& gradients,
                                      const Saved& saved) const {
  const std::int64_t first = args.first_row.value_or(context.first_own_row());
  add_second_grads(args.output_grad, saved.low, gradients);
  const Tensor low = low_grad(context, context.tp, args.output_grad, args.input.rows(), gradients);
  find_input_grad(context, low, args.residual, {args.input_grad, first});
  WeightGradients partial = gradients.unannounced();
  if (args.norm) return add_normed_first_grads(context, low, args.input, *args.norm, partial);
  add_first_grads(context, low, {args.input, first}, partial);
}

void LowRankAdapter::backward_rows(const BlockContext& context, const RowsBackwardArgs& args, WeightGradients& gradients,
                                   const Saved& saved) const {
  WeightGradients partial = gradients.unannounced();
  add_second_grads(args.own_grad, saved.low, partial);
  const Tensor low = low_grad(context, one_rank, args.output_grad, args.output_grad.rows(), gradients);
  find_input_grad(context, low, args.residual, {args.input_grad});
  add_first_grads(context, low, {args.input}, gradients);
}

}  // namespace pipetrain
