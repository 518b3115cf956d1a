#include "model/blocks/weight_gradients.hpp"

namespace pipetrain {

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added) {
  ops.weight_grad(gradient);
  if (added) added(gradient.dw);
}

Tensor WeightGradients::take_place(const Shape& shape) {
  return left_.shape == shape ? std::exchange(left_, Tensor{}) : Tensor{};
}

void WeightGradients::add(WeightGradArgs args) {
  args.accumulate = accumulate_;
  if (defers()) {
    kept_->push_back(args);
  } else {
    compute(ops_, args, added_);
  }
}

void WeightGradients::add_and_scatter(const TensorParallel& tp, BackwardScatterArgs args) {
  args.accumulate = accumulate_;
  if (defers()) {
    kept_->push_back({.dy = args.dy, .x = args.x, .dw = args.dw, .accumulate = args.accumulate});
    ops_.matmul_scatter(tp, MatmulKind::input_grad, {.in = args.dy, .w = args.w, .out = args.dx});
  } else {
    ops_.backward_scatter(tp, args);
    if (added_) added_(args.dw);
  }
}

}  // namespace pipetrain
