#include "model/blocks/weight_gradients.hpp"

#include "model/parameters/gradient_places.hpp"

namespace pipetrain {

namespace {

// Enqueues the product and returns the gradient.
Tensor enqueue_product(Ops& ops, const WeightGradArgs& args) {
  ops.weight_grad(args);
  return args.dw;
}
Tensor enqueue_product(Ops& ops, const GroupedWeightGradArgs& args) {
  ops.grouped_weight_grad(args);
  return args.dw;
}
Tensor enqueue_product(Ops& ops, const Fp8MatmulArgs& args) {
  ops.fp8_matmul(args);
  return args.out;
}

}  // namespace

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added) {
  const Tensor sum = std::visit([&](const auto& args) { return enqueue_product(ops, args); }, gradient.product);
  if (gradient.last && added) added(sum);
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
  if (!has_place(args.dw)) return;
  args.accumulate = accumulate_;
  add_or_keep(args);
}

void WeightGradients::add_grouped(GroupedWeightGradArgs args) {
  if (!has_place(args.dw)) return;
  args.accumulate = accumulate_;
  add_or_keep(args);
}

void WeightGradients::add(Fp8MatmulArgs args) {
  if (!has_place(args.out)) return;
  if (accumulate_ == Accumulate::yes) args.addend = args.out;
  add_or_keep(args);
}

void WeightGradients::add_or_keep(const GradientProduct& product) {
  const KeptGradient gradient{product, last_};
  if (defers()) {
    kept_->push_back(gradient);
  } else {
    compute(ops_, gradient, added_);
  }
}

void WeightGradients::add_and_scatter(BackwardScatterArgs args) {
  args.accumulate = accumulate_;
  if (!has_place(args.dw)) return ops_.matmul_scatter(args.matmul_scatter());
  if (defers()) {
    kept_->push_back({args.weight_grad(), last_});
    ops_.matmul_scatter(args.matmul_scatter());
  } else {
    ops_.backward_scatter(args);
    if (last_ && added_) added_(args.dw);
  }
}

}  // namespace pipetrain
