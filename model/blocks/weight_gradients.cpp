#include "model/blocks/weight_gradients.hpp"

namespace pipetrain {

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added) {
  const bool announces = gradient.last && added;
  if (const auto* wide = std::get_if<WeightGradArgs>(&gradient.product)) {
    ops.weight_grad(*wide);
    if (announces) added(wide->dw);
  } else {
    const auto& in_fp8 = std::get<Fp8MatmulArgs>(gradient.product);
    ops.fp8_matmul(in_fp8);
    if (announces) added(in_fp8.out);
  }
}

WeightGradients WeightGradients::of_part(bool first, bool last) const {
  WeightGradients part = *this;
  if (!first) part.accumulate_ = Accumulate::yes;
  part.last_ = last;
  return part;
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

void WeightGradients::add_or_keep(const std::variant<WeightGradArgs, Fp8MatmulArgs>& product) {
  const KeptGradient gradient{product, last_};
  if (defers()) {
    kept_->push_back(gradient);
  } else {
    compute(ops_, gradient, added_);
  }
}

void WeightGradients::add_and_scatter(BackwardScatterArgs args) {
  args.accumulate = accumulate_;
  if (defers()) {
    kept_->push_back({args.weight_grad(), last_});
    ops_.matmul_scatter(args.matmul_scatter());
  } else {
    ops_.backward_scatter(args);
    if (last_ && added_) added_(args.dw);
  }
}

}  // namespace pipetrain
