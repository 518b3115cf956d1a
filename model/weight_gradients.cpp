#include "model/weight_gradients.hpp"

namespace pipetrain {

void compute(Ops& ops, const KeptGradient& gradient) { ops.weight_grad(gradient.dy, gradient.x, gradient.dw); }

void WeightGradients::add(const Tensor& dy, const Tensor& x, const Tensor& dw) {
  const KeptGradient gradient{dy, x, dw};
  if (defers()) {
    kept_->push_back(gradient);
  } else {
    compute(ops_, gradient);
  }
}

}  // namespace pipetrain
