#include "model/experts/expert_adapter.hpp"

namespace pipetrain {
namespace {

// sum += addend
void add_rows(const BlockContext& context, const Tensor& addend, const Tensor& sum) {
  context.ops.scale({.x = addend, .out = sum, .factor = 1, .exact = true, .residual = sum});
}

}  // namespace

std::optional<ExpertAdapter> ExpertAdapter::of(const ModelConfig& config, const Block& block, TensorRole matrices,
                                               const TensorParallel& tp) {
  auto targets = find_adapter_targets(config, block, matrices, tp);
  return targets ? std::optional(ExpertAdapter(std::move(*targets))) : std::nullopt;
}

void ExpertAdapter::bind(const BoundTensors& tensors) {
  in_ = tensors.at(targets_.in_role);
  targets_.bind(tensors);
}

void ExpertAdapter::raise(const BlockContext& context, const Tensor& low, const Tensor& offsets, const Tensor& out) const {
  const auto multiply = [&](const AdapterTarget& target, const Tensor& result) {
    context.ops.grouped_matmul({.kind = MatmulKind::forward,
                                .in = targets_.columns_of(context, low, target, context.workspace),
                                .w = target.out.weight,
                                .offsets = offsets,
                                .out = result});
  };
  if (targets_.is_single()) return multiply(targets_.all.front(), out);
  context.ops.zero(out);
  for (const AdapterTarget& target : targets_.all) {
    const ArenaScope scope(context.workspace);
    const Tensor own = context.workspace.allocate({out.rows(), target.rows}, context.dtype);
    multiply(target, own);
    context.ops.copy_columns({.source = own, .target = out, .target_begin = target.row, .count = target.rows});
  }
}

void ExpertAdapter::forward(const BlockContext& context, const ForwardArgs& args, Arena& kept, Saved& saved) const {
  saved.low = kept.allocate({args.rows.rows(), targets_.rank}, context.dtype);
  context.ops.grouped_matmul(
      {.kind = MatmulKind::forward, .in = args.rows, .w = in_.weight, .offsets = args.offsets, .out = saved.low});
  targets_.scale(context, saved.low);
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.output.shape, context.dtype);
  raise(context, saved.low, args.offsets, added);
  add_rows(context, added, args.output);
}

void ExpertAdapter::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                             const Saved& saved) const {
  const std::int64_t rows = args.rows.rows();
  const Tensor low_grad = gradients.allocate({rows, targets_.rank}, context.dtype);
  for (const AdapterTarget& target : targets_.all) {
    Tensor grad = args.output_grad;
    if (!targets_.is_single()) {
      grad = gradients.allocate({rows, target.rows}, context.dtype);
      context.ops.copy_columns({.source = args.output_grad, .source_begin = target.row, .target = grad, .count = target.rows});
    }
    const Tensor low = targets_.columns_of(context, saved.low, target, gradients.memory());
    gradients.add_grouped({.dy = grad, .x = low, .offsets = args.offsets, .dw = target.out.grad});
    const bool is_all = target.rank == targets_.rank;
    const ArenaScope scope(context.workspace);
    const Tensor own = is_all ? low_grad : context.workspace.allocate(low.shape, context.dtype);
    context.ops.grouped_matmul(
        {.kind = MatmulKind::input_grad, .in = grad, .w = target.out.weight, .offsets = args.offsets, .out = own});
    if (!is_all)
      context.ops.copy_columns({.source = own, .target = low_grad, .target_begin = target.column, .count = target.rank});
  }
  targets_.scale(context, low_grad);
  gradients.add_grouped({.dy = low_grad, .x = args.rows, .offsets = args.offsets, .dw = in_.grad});
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.rows_grad.shape, context.dtype);
  context.ops.grouped_matmul(
      {.kind = MatmulKind::input_grad, .in = low_grad, .w = in_.weight, .offsets = args.offsets, .out = added});
  add_rows(context, added, args.rows_grad);
}

}  // namespace pipetrain
