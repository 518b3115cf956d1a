#include "model/blocks/low_rank_adapter.hpp"

#include <cassert>
#include <string>

#include "model/config/adapter_roles.hpp"
#include "model/parameters/block_plan.hpp"

namespace pipetrain {
namespace {

constexpr TensorParallel one_rank = {};

}  // namespace

std::optional<LowRankAdapter> LowRankAdapter::of(const ModelConfig& config, const Block& block, TensorRole matrix,
                                                 const TensorParallel& tp) {
  const auto roles = adapter_roles(matrix);
  if (!config.adapter.exists() || !roles) return {};
  LowRankAdapter made;
  made.in_role_ = roles->in;
  std::string module;
  std::size_t modules = 0;  // that the matrix has had so far
  for (const Piece& piece : plan_block(block_tensors(config, block), tp.rank(), tp.size()).pieces) {
    const Parameter& parameter = piece.parameter;
    if (parameter.role == roles->in) made.first_column_ = parameter.split_axis == 1 ? parameter.begin : 0;
    if (parameter.role != matrix) continue;
    const bool is_new = module != module_of(parameter.name);
    module = module_of(parameter.name);
    modules += is_new ? 1 : 0;
    const std::int64_t rows = parameter.local[0];
    if (const auto adapter = adapter_of(config.adapter, module, block.layer)) {
      if (is_new) {
        made.targets_.push_back({.role = roles->out[modules - 1],
                                 .row = made.rows_,
                                 .column = made.rank_,
                                 .rank = adapter->rank,
                                 .scale = static_cast<float>(adapter->scale),
                                 .dropout = {module + ".lora", config.adapter.dropout}});
        made.rank_ += adapter->rank;
      }
      made.targets_.back().rows += rows;
    }
    made.rows_ += rows;
  }
  return made.targets_.empty() ? std::nullopt : std::optional(std::move(made));
}

void LowRankAdapter::bind(const BoundTensors& tensors) {
  in_ = tensors.at(in_role_);
  for (Target& target : targets_) target.out = tensors.at(target.role);
}

Tensor LowRankAdapter::second(const BlockContext& context) const {
  if (is_single()) return targets_.front().out.weight;
  const Tensor whole = context.workspace.allocate({rows_, rank_}, context.dtype);
  context.ops.zero(whole);
  for (const Target& target : targets_)
    context.ops.copy_columns({.source = target.out.weight,
                              .target = whole.row_range(target.row, target.row + target.rows),
                              .target_begin = target.column,
                              .count = target.rank});
  return whole;
}

std::vector<LowRankAdapter::TargetRows> LowRankAdapter::target_rows() const {
  std::vector<TargetRows> rows;
  for (const Target& target : targets_) rows.push_back({target.row, target.rows});
  return rows;
}

Tensor LowRankAdapter::merged(const BlockContext& context, const Tensor& weight) const {
  const Tensor sum = context.workspace.allocate(weight.shape, context.dtype);
  const ArenaScope scope(context.workspace);
  const Tensor unscaled = second(context), scaled = context.workspace.allocate(unscaled.shape, context.dtype);
  context.ops.zero(scaled);
  for (const auto& target : targets_)
    context.ops.scale({.x = unscaled.row_range(target.row, target.row + target.rows),
                       .out = scaled.row_range(target.row, target.row + target.rows),
                       .factor = target.scale,
                       .exact = true});
  context.ops.matmul_scatter(
      {.tp = one_rank, .kind = MatmulKind::input_grad, .in = scaled, .w = in_.weight, .residual = weight, .out = sum});
  return sum;
}

Tensor LowRankAdapter::columns_of(const BlockContext& context, const Tensor& low, const Target& target, Arena& memory) const {
  if (target.rank == rank_) return low;
  const Tensor own = memory.allocate({low.rows(), target.rank}, context.dtype);
  context.ops.copy_columns({.source = low, .source_begin = target.column, .target = own, .count = target.rank});
  return own;
}

void LowRankAdapter::drop_inputs(const BlockContext& context, const Target& target, const InputRows& input,
                                 const Tensor& out) const {
  target.dropout.drop_part(context,
                           {.x = input.values, .out = out, .first_row = input.first_row, .first_column = first_column_});
}

void LowRankAdapter::scale(const BlockContext& context, const Tensor& low) const {
  const float first = targets_.front().scale;
  bool is_equal = true;
  for (const Target& target : targets_) is_equal &= target.scale == first;
  if (is_equal) {
    if (first != 1) context.ops.scale({.x = low, .out = low, .factor = first, .exact = true});
    return;
  }
  for (const Target& target : targets_) {
    const ArenaScope scope(context.workspace);
    const Tensor own = columns_of(context, low, target, context.workspace);
    context.ops.scale({.x = own, .out = own, .factor = target.scale, .exact = true});
    context.ops.copy_columns({.source = own, .target = low, .target_begin = target.column, .count = target.rank});
  }
}

void LowRankAdapter::lower(const BlockContext& context, const TensorParallel& tp, const InputRows& input,
                           const Tensor& low) const {
  const auto multiply = [&](const Tensor& values, const Tensor& w, const Tensor& out) {
    context.ops.matmul_scatter({.tp = tp, .kind = MatmulKind::forward, .in = values, .w = w, .out = out});
  };
  if (!drops(context)) {
    multiply(input.values, in_.weight, low);
  } else {
    for (const Target& target : targets_) {
      const ArenaScope scope(context.workspace);
      const Tensor dropped = context.workspace.allocate(input.values.shape, context.dtype);
      drop_inputs(context, target, input, dropped);
      const bool is_all = target.rank == rank_;
      const Tensor own = is_all ? low : context.workspace.allocate({low.rows(), target.rank}, context.dtype);
      multiply(dropped, first_of(target), own);
      if (!is_all)
        context.ops.copy_columns({.source = own, .target = low, .target_begin = target.column, .count = target.rank});
    }
  }
  scale(context, low);
}

void LowRankAdapter::add_input_grad(const BlockContext& context, const Tensor& low_grad, const InputRows& input_grad) const {
  const auto multiply = [&](const Tensor& low, const Tensor& w, const Tensor& out, const std::optional<Tensor>& residual) {
    context.ops.matmul_scatter(
        {.tp = one_rank, .kind = MatmulKind::input_grad, .in = low, .w = w, .residual = residual, .out = out});
  };
  const Tensor& sum = input_grad.values;
  if (!drops(context)) return multiply(low_grad, in_.weight, sum, sum);
  for (const Target& target : targets_) {
    const ArenaScope scope(context.workspace);
    const Tensor own = context.workspace.allocate(sum.shape, context.dtype);
    multiply(columns_of(context, low_grad, target, context.workspace), first_of(target), own, {});
    target.dropout.drop_part(
        context, {.x = own, .out = sum, .residual = sum, .first_row = input_grad.first_row, .first_column = first_column_});
  }
}

void LowRankAdapter::add_first_grads(const BlockContext& context, const Tensor& low_grad, const InputRows& input,
                                     WeightGradients& gradients) const {
  if (!drops(context)) return gradients.add({.dy = low_grad, .x = input.values, .dw = in_.grad});
  for (const Target& target : targets_) {
    const Tensor dropped = gradients.allocate(input.values.shape, context.dtype);
    drop_inputs(context, target, input, dropped);
    gradients.add({.dy = columns_of(context, low_grad, target, gradients.memory()),
                   .x = dropped,
                   .dw = in_.grad.row_range(target.column, target.column + target.rank)});
  }
}

void LowRankAdapter::add_second_grads(const Tensor& output_grad, const Tensor& low, WeightGradients& gradients) const {
  if (is_single()) return gradients.add({.dy = output_grad, .x = low, .dw = targets_.front().out.grad});
  TargetGradArgs args{.dy = output_grad, .x = low, .product = gradients.allocate({rows_, rank_}, DType::f32), .targets = {}};
  for (const Target& target : targets_)
    args.targets.push_back({.dw = target.out.grad,
                            .part = gradients.allocate(target.out.grad.shape, DType::f32),
                            .row = target.row,
                            .column = target.column});
  gradients.add_targets(std::move(args));
}

void LowRankAdapter::forward_columns(const BlockContext& context, const ColumnsForwardArgs& args, const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  lower(context, one_rank, {args.input}, saved.low);
  context.ops.matmul_scatter({.tp = one_rank,
                              .kind = MatmulKind::forward,
                              .in = saved.low,
                              .w = second(context),
                              .residual = args.output,
                              .out = args.output});
}

void LowRankAdapter::backward_columns(const BlockContext& context, const ColumnsBackwardArgs& args, WeightGradients& gradients,
                                      const Saved& saved) const {
  const std::int64_t first = context.gathers() ? context.tp.shard_begin(context.tokens()) : 0;
  const Tensor low_grad = gradients.allocate({args.input.rows(), rank_}, context.dtype);
  add_second_grads(args.output_grad, saved.low, gradients);
  {
    const ArenaScope scope(context.workspace);
    context.ops.matmul_scatter(
        {.tp = context.tp, .kind = MatmulKind::input_grad, .in = args.output_grad, .w = second(context), .out = low_grad});
    scale(context, low_grad);
    add_input_grad(context, low_grad, {args.input_grad, first});
  }
  WeightGradients partial = gradients.unannounced();
  add_first_grads(context, low_grad, {args.input, first}, partial);
}

void LowRankAdapter::forward_rows(const BlockContext& context, const RowsForwardArgs& args, const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  lower(context, context.tp, {args.input}, saved.low);
  context.ops.matmul_scatter({.tp = one_rank,
                              .kind = MatmulKind::forward,
                              .in = saved.low,
                              .w = second(context),
                              .residual = args.residual,
                              .out = args.output});
}

void LowRankAdapter::backward_rows(const BlockContext& context, const RowsBackwardArgs& args, WeightGradients& gradients,
                                   const Saved& saved) const {
  const Tensor low_grad = gradients.allocate({args.output_grad.rows(), rank_}, context.dtype);
  WeightGradients partial = gradients.unannounced();
  add_second_grads(args.own_grad, saved.low, partial);
  {
    const ArenaScope scope(context.workspace);
    context.ops.matmul_scatter(
        {.tp = one_rank, .kind = MatmulKind::input_grad, .in = args.output_grad, .w = second(context), .out = low_grad});
    scale(context, low_grad);
    add_input_grad(context, low_grad, {args.input_grad});
  }
  add_first_grads(context, low_grad, {args.input}, gradients);
}

}  // namespace pipetrain
