#include "model/blocks/weight_gradients.hpp"

#include "model/parameters/gradient_places.hpp"

namespace pipetrain {

namespace {

// Each enqueues the product and calls done(dw) for every gradient that is then complete.
template <class Done>
void enqueue_product(Ops& ops, const WeightGradArgs& args, const Done& done) {
  ops.weight_grad(args);
  done(args.dw);
}
template <class Done>
void enqueue_product(Ops& ops, const GroupedWeightGradArgs& args, const Done& done) {
  ops.grouped_weight_grad(args);
  done(args.dw);
}
template <class Done>
void enqueue_product(Ops& ops, const Fp8MatmulArgs& args, const Done& done) {
  ops.fp8_matmul(args);
  done(args.out);
}
template <class Done>
void enqueue_product(Ops& ops, const TargetGradArgs& args, const Done& done) {
  ops.weight_grad({.dy = args.dy, .x = args.x, .dw = args.product, .accumulate = Accumulate::no});
  ops.add_blocks({.source = args.product,
                  .blocks = args.targets,
                  .accumulate = args.accumulate,
                  .factors = args.factors,
                  .offset = args.offset});
  for (const MatrixBlock& target : args.targets) done(target.values);
}

}  // namespace

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added) {
  const auto done = [&](const Tensor& sum) {
    if (gradient.last && added) added(sum);
  };
  std::visit([&](const auto& args) { enqueue_product(ops, args, done); }, gradient.product);
}

WeightGradients WeightGradients::of_part(bool first, bool last) const {
  WeightGradients part = *this;
  if (!first) part.accumulate_ = Accumulate::yes;
  part.last_ = last_ && last;
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

void WeightGradients::add_targets(TargetGradArgs args) {
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
