#include "model/weight_gradients.hpp"

namespace pipetrain {

void compute(Ops& ops, const KeptGradient& gradient, const GradientListener& added) {
  ops.weight_grad(gradient.dy, gradient.x, gradient.dw, gradient.accumulate);
  if (added) added(gradient.dw);
}

Tensor WeightGradients::take_place(const Shape& shape) {
  return left_.shape == shape ? std::exchange(left_, Tensor{}) : Tensor{};
}

void WeightGradients::add(const Tensor& dy, const Tensor& x, const Tensor& dw) {
  const KeptGradient gradient{dy, x, dw, accumulate_};
  if (defers()) {
    kept_->push_back(gradient);
  } else {
    compute(ops_, gradient, added_);
  }
}

void WeightGradients::add_and_scatter(const TensorParallel& tp, const Tensor& dy, const Tensor& x, const Tensor& w,
                                      const Tensor& dw, const Tensor& dx) {
  if (defers()) {
    kept_->push_back({dy, x, dw, accumulate_});
    ops_.matmul_scatter(tp, MatmulKind::input_grad, dy, w, nullptr, dx);
  } else {
    ops_.backward_scatter(tp, dy, w, dx, x, dw, accumulate_);
    if (added_) added_(dw);
  }
}

}  // namespace pipetrain
