#include "model/blocks/weight_gradients.hpp"

namespace pipetrain {

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added) {
  if (const auto* wide = std::get_if<WeightGradArgs>(&gradient)) {
    ops.weight_grad(*wide);
    if (added) added(wide->dw);
  } else {
    const auto& in_fp8 = std::get<Fp8MatmulArgs>(gradient);
    ops.fp8_matmul(in_fp8);
    if (added) added(in_fp8.out);
  }
}

Tensor WeightGradients::take_place(const Shape& shape) {
  return left_.shape == shape ? std::exchange(left_, Tensor{}) : Tensor{};
}

void WeightGradients::add(WeightGradArgs args) {
  args.accumulate = accumulate_;
  add_or_keep(args);
}

void WeightGradients::add(Fp8MatmulArgs args) {
  if (accumulate_ == Accumulate::yes) args.addend = args.out;
  add_or_keep(args);
}

void WeightGradients::add_or_keep(const KeptGradient& gradient) {
  if (defers()) {
    kept_->push_back(gradient);
  } else {
    compute(ops_, gradient, added_);
  }
}

void WeightGradients::add_and_scatter(const TensorParallel& tp, BackwardScatterArgs args) {
  args.accumulate = accumulate_;
  if (defers()) {
    kept_->push_back(WeightGradArgs{.dy = args.dy, .x = args.x, .dw = args.dw, .accumulate = args.accumulate});
    ops_.matmul_scatter(tp, MatmulKind::input_grad, {.in = args.dy, .w = args.w, .out = args.dx});
  } else {
    ops_.backward_scatter(tp, args);
    if (added_) added_(args.dw);
  }
}

}  // namespace pipetrain
