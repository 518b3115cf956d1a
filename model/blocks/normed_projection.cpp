#include "model/blocks/normed_projection.hpp"

#include <cassert>

#include "model/blocks/fp8_products.hpp"

namespace pipetrain {
namespace {

struct AdaptedProduct {
  const LowRankAdapter* adapter;  // null: the matrix's product alone
  const LowRankAdapter::Saved& saved;
  Tensor w;      // [N, H]
  Tensor shard;  // [Tr, H]
  Tensor full;   // [T, H]; the shard's memory if nothing is gathered
  Tensor out;    // [T, N], output
  std::optional<Tensor> bias;
};

// The adapter reads gathered inputs, so that where the matrix's product gathers them its own follows.
void multiply_columns(const BlockContext& context, const AdaptedProduct& args) {
  if (args.adapter == nullptr || context.gathers()) {
    context.ops.gather_matmul({.tp = context.tp,
                               .kind = MatmulKind::forward,
                               .shard = args.shard,
                               .w = args.w,
                               .full = args.full,
                               .out = args.out,
                               .bias = args.bias});
    if (args.adapter != nullptr)
      args.adapter->forward(context, {}, {.input = args.full, .residual = args.out, .output = args.out}, args.saved);
    return;
  }
  const ArenaScope scope(context.workspace);
  const Tensor added = context.workspace.allocate(args.out.shape, context.dtype);
  args.adapter->forward(context, {}, {.input = args.full, .output = added}, args.saved);
  context.ops.matmul_scatter(
      {.kind = MatmulKind::forward, .in = args.full, .w = args.w, .residual = added, .out = args.out, .bias = args.bias});
}

// Returns a copy that gradients of weights may read until they have been computed.
Tensor copy_of(const BlockContext& context, const Tensor& input, WeightGradients& gradients) {
  const Tensor copy = gradients.memory().allocate(input.shape, context.dtype);
  context.ops.copy(input, copy);
  return copy;
}

// Computes this rank's rows of the norm's output once more, and writes the same statistics.
Tensor norm_again(const BlockContext& context, const Norm& norm, const NormedProjection::Saved& saved, Arena& memory) {
  const Tensor normed = memory.allocate(saved.input.shape, context.dtype);
  norm.forward(context.ops, {.x = saved.input, .y = normed, .statistics = saved.statistics});
  return normed;
}

// Computes the norm's gathered output `wide` [T, H], and from it the layouts that `normed` has. Every rank rounds the gathered
// rows itself: all know the same largest magnitude, and so use the same scale.
void norm_into(const BlockContext& context, const Norm& norm, const NormedProjection::Saved& saved, const Tensor& wide,
               const Fp8Matrix& normed) {
  const bool gathers = context.gathers();
  const Tensor shard = context.own_rows(wide);
  const bool measures = !gathers && has_tensor_scale(normed);
  const auto largest = measures ? std::optional(largest_of(normed.scale)) : std::nullopt;
  norm.forward(context.ops, {.x = saved.input, .y = shard, .statistics = saved.statistics, .largest = largest});
  if (gathers) context.ops.gather({.tp = context.tp, .shard = shard, .full = wide});
  context.ops.quantise({.x = wide, .out = normed, .measured = measures});
}

void norm_backward(const BlockContext& context, const Norm& norm, const NormedProjection::BackwardArgs& args,
                   const Tensor& normed_grad, const NormedProjection::Saved& saved) {
  norm.backward(context, {.dy = normed_grad,
                          .x = saved.input,
                          .statistics = saved.statistics,
                          .residual = args.residual,
                          .dx = args.input_grad,
                          .residual_sums = args.residual_sums});
}

}  // namespace

void NormedProjection::bind(const BoundTensors& tensors) {
  if (norm_) norm_->bind(tensors);
  matrix_ = tensors.at(roles_.weight);
  if (roles_.bias) bias_ = tensors.at(*roles_.bias);
  if (adapter_) adapter_->bind(tensors);
  if (magnitude_) magnitude_->bind(tensors);
}

Arena* NormedProjection::arena_of_input(const BlockContext& context, const KeptMemory& memory) const {
  if (context.gathers()) return needs_input() ? memory.inputs : &context.workspace;
  return norm_ && matrix_.is_trained() ? memory.remade : nullptr;
}

Tensor NormedProjection::forward(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                                 Saved& saved) const {
  if (matrix_.in_fp8()) return forward_in_fp8(context, input, memory, saved);
  const std::int64_t hidden = input.shape[1];
  Arena* const kept = arena_of_input(context, memory);
  saved.input = input;
  if (norm_) saved.statistics = norm_->allocate_statistics(context.shard_rows(), *memory.results);
  saved.normed = kept ? kept->allocate({context.tokens(), hidden}, context.dtype) : Tensor{};
  const Tensor output = memory.results->allocate({context.tokens(), matrix_.weight.rows()}, context.dtype);
  const bool adapts = adapter_ && !context.base_alone, scales = magnitude_ && !context.base_alone;
  if (adapts) adapter_->reserve(context.tokens(), context.dtype, *memory.inputs, saved.adapter);
  if (scales) magnitude_->reserve(context, output.shape, *memory.inputs, saved.magnitude);

  const ArenaScope scope(context.workspace);
  // The norm writes this rank's rows where the gather expects them, so that they need no copy.
  Tensor shard = input;
  if (norm_) {
    shard = kept ? context.own_rows(saved.normed) : context.workspace.allocate({context.shard_rows(), hidden}, context.dtype);
    norm_->forward(context.ops, {.x = input, .y = shard, .statistics = saved.statistics});
  }
  const Tensor full = kept ? saved.normed : shard, product = scales ? saved.magnitude.product : output;
  const auto bias = roles_.bias && !scales ? std::optional(bias_.weight) : std::nullopt;
  multiply_columns(context, {adapts ? &*adapter_ : nullptr, saved.adapter, matrix_.weight, shard, full, product, bias});
  if (scales) {
    magnitude_->forward(context, {*adapter_, matrix_.weight}, saved.magnitude, output);
    if (roles_.bias) context.ops.add_bias(output, bias_.weight);
  }
  return output;
}

std::optional<Norm::Factors> NormedProjection::norm_factors(const BlockContext& context, const Saved& saved) const {
  const bool has_output = saved.normed.shape.rank() > 0;
  if (!norm_ || !adapter_ || has_output || context.dtype == DType::f16 || adapter_->drops(context)) return std::nullopt;
  return norm_->factors(saved.statistics);
}

// The block's input gradient may be written over its input before W runs, or before the adapter's gradients, so that they read
// a copy.
Tensor NormedProjection::matrix_input(const BlockContext& context, WeightGradients& gradients, const Saved& saved) const {
  if (saved.normed.shape.rank() > 0) return saved.normed;
  if (norm_) return norm_again(context, *norm_, saved, gradients.memory());
  return gradients.defers() || adapter_ ? copy_of(context, saved.input, gradients) : saved.input;
}

Tensor NormedProjection::product_grad(const BlockContext& context, const Tensor& output_grad, const Saved& saved) const {
  if (bias_.is_trained()) context.ops.bias_grad(output_grad, bias_.grad);
  return magnitude_ ? magnitude_->backward(context, *adapter_, output_grad, saved.magnitude) : output_grad;
}

void NormedProjection::backward_without_norm(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                             const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  const Tensor product_grad = this->product_grad(context, args.output_grad, saved);
  const Tensor input = needs_input() ? matrix_input(context, gradients, saved) : Tensor{};
  gradients.add({.dy = product_grad, .x = input, .dw = matrix_.grad});
  multiply_back(context,
                {.product_grad = product_grad, .input = input, .residual = args.residual, .input_grad = args.input_grad},
                gradients, saved);
  if (args.residual_sums) context.ops.bias_grad(*args.residual, *args.residual_sums);
}

void NormedProjection::multiply_back(const BlockContext& context, const GradientArgs& args, WeightGradients& gradients,
                                     const Saved& saved) const {
  std::optional<Tensor> residual = args.residual;
  if (adapter_) {
    const bool is_gathered = saved.normed.shape.rank() > 0;
    const Tensor own = is_gathered ? context.own_rows(args.input) : args.input;
    const Tensor added = context.workspace.allocate(args.input_grad.shape, context.dtype);
    adapter_->backward_columns(
        context, {.output_grad = args.product_grad, .input = own, .norm = args.norm, .residual = residual, .input_grad = added},
        gradients, saved.adapter);
    residual = added;
  }
  if (matrix_.in_fp8()) {
    multiply_back_in_fp8(context, {.tp = context.tp,
                                   .weight = matrix_.fp8,
                                   .in = args.product_grad,
                                   .scale = magnitude_ ? std::nullopt : args.scale,
                                   .addend = residual,
                                   .out = args.input_grad});
    return;
  }
  context.ops.matmul_scatter({.tp = context.tp,
                              .kind = MatmulKind::input_grad,
                              .in = args.product_grad,
                              .w = matrix_.weight,
                              .residual = residual,
                              .out = args.input_grad});
}

void NormedProjection::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                const Saved& saved) const {
  if (is_trained_in_fp8()) return backward_in_fp8(context, args, gradients, saved);
  const ArenaScope scope(context.workspace);
  if (!norm_) return backward_without_norm(context, args, gradients, saved);
  const auto factors = norm_factors(context, saved);
  Tensor input;  // of the matrix, or of the norm; the block's input gradient may be written over the latter before W runs
  if (factors)
    input = gradients.defers() ? copy_of(context, saved.input, gradients) : saved.input;
  else if (needs_input())
    input = matrix_input(context, gradients, saved);
  const Tensor normed_grad = context.workspace.allocate(saved.input.shape, context.dtype);
  const Tensor product_grad = this->product_grad(context, args.output_grad, saved);
  if (adapter_ || matrix_.in_fp8()) {  // the matrix is frozen
    multiply_back(
        context,
        {.product_grad = product_grad, .input = input, .norm = factors, .input_grad = normed_grad, .scale = args.scale},
        gradients, saved);
  } else {
    gradients.add_and_scatter(
        {.tp = context.tp, .dy = product_grad, .w = matrix_.weight, .dx = normed_grad, .x = input, .dw = matrix_.grad});
  }
  norm_backward(context, *norm_, args, normed_grad, saved);
}

Tensor NormedProjection::forward_in_fp8(const BlockContext& context, const Tensor& input, const KeptMemory& memory,
                                        Saved& saved) const {
  assert(norm_);  // a model without it is not trained in 8 bits
  const Shape whole{context.tokens(), norm_->hidden()};
  Arena* const kept = matrix_.is_trained() ? arena_of_input(context, memory) : nullptr;
  const bool adapts = adapter_ && !context.base_alone, scales = magnitude_ && !context.base_alone;
  saved.input = input;
  saved.statistics = norm_->allocate_statistics(context.shard_rows(), *memory.results);
  const Tensor output = memory.results->allocate({context.tokens(), matrix_.weight.rows()}, context.dtype);
  saved.normed_fp8 = {};
  const Fp8Form form = values_beside(matrix_.fp8);
  if (kept) saved.normed_fp8 = allocate_fp8(whole, form, {.cols = kept});
  if (adapts) adapter_->reserve(context.tokens(), context.dtype, *memory.inputs, saved.adapter);
  if (scales) magnitude_->reserve(context, output.shape, *memory.inputs, saved.magnitude);

  const ArenaScope scope(context.workspace);
  const auto scale = kept ? std::optional(saved.normed_fp8.scale) : std::nullopt;
  Fp8Matrix normed = allocate_fp8(whole, form, {.rows = &context.workspace}, scale);
  normed.cols = saved.normed_fp8.cols, normed.col_scales = saved.normed_fp8.col_scales;
  const Tensor wide = context.workspace.allocate(whole, context.dtype);
  norm_into(context, *norm_, saved, wide, normed);
  std::optional<Tensor> added;
  if (adapts) {
    added = context.workspace.allocate(output.shape, context.dtype);
    adapter_->forward(context, {}, {.input = wide, .output = *added}, saved.adapter);
  }
  const Tensor product = scales ? saved.magnitude.product : output;
  context.ops.fp8_matmul({.a = rows_of(normed), .b = rows_of(matrix_.fp8), .addend = added, .out = product});
  if (scales) magnitude_->forward(context, {*adapter_, matrix_.weight}, saved.magnitude, output);
  if (roles_.bias) context.ops.add_bias(output, bias_.weight);
  return output;
}

void NormedProjection::backward_in_fp8(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                       const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  Fp8Matrix normed = saved.normed_fp8;
  if (normed.cols.shape.rank() == 0) {  // only if nothing is gathered
    normed = allocate_fp8(saved.input.shape, values_beside(matrix_.fp8), {.cols = &gradients.memory()});
    const ArenaScope norm_scope(context.workspace);
    norm_into(context, *norm_, saved, context.workspace.allocate(saved.input.shape, context.dtype), normed);
  }
  if (bias_.is_trained()) context.ops.bias_grad(args.output_grad, bias_.grad);
  const Tensor normed_grad = context.workspace.allocate(saved.input.shape, context.dtype);
  const Fp8Matrix output_grad = multiply_back_in_fp8(
      context, {context.tp, matrix_.fp8, args.output_grad, &gradients.memory(), args.scale, {}, normed_grad});
  gradients.add({.a = cols_of(output_grad), .b = cols_of(normed), .out = matrix_.grad});
  norm_backward(context, *norm_, args, normed_grad, saved);
}

}  // namespace pipetrain
