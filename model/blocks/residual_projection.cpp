#include "model/blocks/residual_projection.hpp"

#include <cassert>

#include "model/blocks/fp8_products.hpp"

namespace pipetrain {

void ResidualProjection::bind(const BoundTensors& tensors) {
  matrix_ = tensors.at(roles_.weight);
  if (roles_.bias) bias_ = tensors.at(*roles_.bias);
  if (adapter_) adapter_->bind(tensors);
  if (magnitude_) magnitude_->bind(tensors);
  if (has_norm_) norm_weight_ = tensors.at(TensorRole::output_norm_weight);
}

void ResidualProjection::multiply_matrix(const BlockContext& context, const ProductArgs& args, Saved& saved) const {
  if (!in_fp8())
    return context.ops.matmul_scatter({.tp = context.tp,
                                       .kind = MatmulKind::forward,
                                       .in = args.input,
                                       .w = matrix_.weight,
                                       .residual = args.residual,
                                       .out = args.output,
                                       .bias = args.bias});
  Arena* const kept = matrix_.is_trained() ? args.kept : nullptr;
  const Fp8Matrix input =
      multiply_in_fp8(context, {context.tp, matrix_.fp8, args.input, kept, args.scale, args.residual, args.output});
  saved.input = kept ? input : Fp8Matrix{};
  if (args.bias) context.ops.add_bias(args.output, *args.bias);
}

void ResidualProjection::multiply_adapted(const BlockContext& context, const ProductArgs& args, Saved& saved) const {
  const ArenaScope scope(context.workspace);
  ProductArgs whole = args;
  whole.residual = context.workspace.allocate(args.output.shape, context.dtype);
  adapter_->forward(context, context.tp, {args.input, args.residual, *whole.residual}, saved.adapter);
  multiply_matrix(context, whole, saved);
}

void ResidualProjection::multiply_scaled(const BlockContext& context, const ForwardArgs& args,
                                         const std::optional<Tensor>& residual, Saved& saved) const {
  magnitude_->reserve(context, args.output.shape, *args.results, saved.magnitude);
  adapter_->reserve(args.output.rows(), context.dtype, *args.results, saved.adapter);
  const Tensor& product = saved.magnitude.product;
  multiply_adapted(context, {.input = args.input, .output = product, .scale = args.scale}, saved);
  magnitude_->forward(context, {*adapter_, matrix_.weight, context.tp}, saved.magnitude, args.output);
  if (roles_.bias) context.ops.add_bias(args.output, bias_.weight);
  if (residual) context.ops.scale({.x = args.output, .out = args.output, .factor = 1, .exact = true, .residual = residual});
}

void ResidualProjection::multiply(const BlockContext& context, const ForwardArgs& args, const std::optional<Tensor>& residual,
                                  Saved& saved) const {
  if (magnitude_ && !context.base_alone) return multiply_scaled(context, args, residual, saved);
  const auto bias = roles_.bias ? std::optional(bias_.weight) : std::nullopt;
  const ProductArgs product{args.input, residual, args.output, bias, args.kept, args.scale};
  if (!adapter_ || context.base_alone) return multiply_matrix(context, product, saved);
  adapter_->reserve(args.output.rows(), context.dtype, *args.results, saved.adapter);
  multiply_adapted(context, product, saved);
}

std::optional<Tensor> ResidualProjection::residual_sums(const BlockContext& context) const {
  return bias_.is_trained() && !changes_product(context) ? std::optional(bias_.grad) : std::nullopt;
}

void ResidualProjection::forward(const BlockContext& context, const ForwardArgs& args, Saved& saved) const {
  const bool drops = dropout_.active(context);
  assert((drops ? 1 : 0) + (has_norm_ ? 1 : 0) + (scale_ != 1 ? 1 : 0) <= 1);
  if (scale_ != 1) {
    multiply(context, args, std::nullopt, saved);
    return context.ops.scale(
        {.x = args.output, .out = args.output, .factor = scale_, .exact = true, .residual = args.residual});
  }
  if (!has_norm_) {
    multiply(context, args, drops ? std::nullopt : std::optional(args.residual), saved);
    if (drops) dropout_.drop(context, args.output, args.output, args.residual);
    return;
  }
  saved.product = args.results->allocate(args.output.shape, context.dtype);
  saved.inv_rms = args.results->allocate({args.output.rows()}, DType::f32);
  ForwardArgs product = args;
  product.output = saved.product;
  multiply(context, product, std::nullopt, saved);
  context.ops.rms_norm({.x = saved.product,
                        .weight = norm_weight_.weight,
                        .eps = eps_,
                        .y = args.output,
                        .inv_rms = saved.inv_rms,
                        .offset = offset_,
                        .residual = args.residual});
}

Tensor ResidualProjection::product_grad(const BlockContext& context, const Tensor& output_grad, const Tensor& gathered,
                                        const Saved& saved) const {
  const Tensor grad = context.own_rows(gathered);
  if (has_norm_) {
    context.ops.rms_norm_backward({.dy = output_grad,
                                   .x = saved.product,
                                   .weight = norm_weight_.weight,
                                   .inv_rms = saved.inv_rms,
                                   .dx = grad,
                                   .dweight = sums_of(context, norm_weight_),
                                   .offset = offset_});
  } else if (scale_ != 1) {
    context.ops.scale({.x = output_grad, .out = grad, .factor = scale_, .exact = true});
  } else {
    dropout_.drop(context, output_grad, grad);
  }
  return grad;
}

void ResidualProjection::backward_in_fp8(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                         const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  Fp8Matrix input = saved.input;
  if (input.cols.shape.rank() == 0) {
    input = allocate_fp8(args.input.shape, values_beside(matrix_.fp8), {.cols = &gradients.memory()});
    context.ops.quantise({.x = args.input, .out = input});
  }
  const bool changes = changes_product(context);
  const Shape whole{context.tokens(), args.output_grad.shape[1]};
  const Tensor gathered = context.gathers() || changes ? context.workspace.allocate(whole, context.dtype) : args.output_grad;
  const Tensor shard = changes ? product_grad(context, args.output_grad, gathered, saved) : args.output_grad;
  if (context.gathers()) context.ops.gather({.tp = context.tp, .shard = shard, .full = gathered});
  if (bias_.is_trained() && changes) context.ops.bias_grad(shard, bias_.grad);
  const Fp8Matrix output_grad = multiply_back_in_fp8(
      context, {.weight = matrix_.fp8, .in = gathered, .cols = &gradients.memory(), .out = args.input_grad});
  gradients.add({.a = cols_of(output_grad), .b = cols_of(input), .out = matrix_.grad});
}

void ResidualProjection::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                  const Saved& saved) const {
  if (is_trained_in_fp8()) return backward_in_fp8(context, args, gradients, saved);
  const bool changes = changes_product(context);
  Tensor gathered = context.gathers() || changes
                        ? gradients.allocate({context.tokens(), args.output_grad.shape[1]}, context.dtype)
                        : args.output_grad;
  Tensor shard = changes ? product_grad(context, args.output_grad, gathered, saved) : args.output_grad;
  if (bias_.is_trained() && changes) context.ops.bias_grad(shard, bias_.grad);
  if (magnitude_) shard = magnitude_->backward(context, *adapter_, shard, saved.magnitude);
  if (!context.gathers()) gathered = shard;
  if (in_fp8() && context.gathers()) context.ops.gather({.tp = context.tp, .shard = shard, .full = gathered});
  if (in_fp8() || (adapter_ && !context.gathers()))
    return frozen_backward(context, {gathered, args.input, args.input_grad}, shard, gradients, saved);
  context.ops.gather_matmul({.tp = context.tp,
                             .kind = MatmulKind::input_grad,
                             .shard = shard,
                             .w = matrix_.weight,
                             .full = gathered,
                             .out = args.input_grad});
  gradients.add({.dy = gathered, .x = args.input, .dw = matrix_.grad});
  if (adapter_)
    adapter_->backward_rows(context, {gathered, shard, args.input, args.input_grad, args.input_grad}, gradients, saved.adapter);
}

void ResidualProjection::frozen_backward(const BlockContext& context, const BackwardArgs& args, const Tensor& own_grad,
                                         WeightGradients& gradients, const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  const Tensor &grad = args.output_grad, &out = args.input_grad;
  std::optional<Tensor> added;
  if (adapter_) {
    added = context.workspace.allocate(out.shape, context.dtype);
    adapter_->backward_rows(context, {grad, own_grad, args.input, {}, *added}, gradients, saved.adapter);
  }
  if (in_fp8()) {
    multiply_back_in_fp8(context, {.weight = matrix_.fp8, .in = grad, .addend = added, .out = out});
  } else {
    context.ops.matmul_scatter(
        {.kind = MatmulKind::input_grad, .in = grad, .w = matrix_.weight, .residual = added, .out = out});
  }
}

}  // namespace pipetrain
