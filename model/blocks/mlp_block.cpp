#include "model/blocks/mlp_block.hpp"

#include <cassert>

#include "model/blocks/fp8_memory.hpp"

namespace pipetrain {
namespace {

struct MlpSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor projected;  // [T, 2I] gate and up, or [T, I]
  Tensor inner;      // [T, I]; without a shape where it is trained in 8 bits, or if the backward computes it again
  ResidualProjection::Saved down;

  void relocate(const Relocation& moved) override {
    projection.relocate(moved);
    for (Tensor* const view : {&projected, &inner}) moved.move(*view);
    down.relocate(moved);
  }
};

std::optional<Tensor> place_of_largest(const std::optional<Tensor>& scale) {
  return scale ? std::optional(largest_of(*scale)) : std::nullopt;
}

}  // namespace

MlpBlock::MlpBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp)
    : activation_(config.activation),
      up_(config,
          {TensorRole::mlp_in_weight, bias_if(config.biases.mlp && activation_ != Activation::gelu, TensorRole::mlp_in_bias)},
          config.input_norms, LowRankAdapter::of(config, parameters.block, TensorRole::mlp_in_weight, tp)),
      down_(config, {TensorRole::mlp_out_weight, bias_if(config.biases.mlp, TensorRole::mlp_out_bias)},
            {dropout_name(parameters.block.layer, "mlp"), config.dropout.residual},
            LowRankAdapter::of(config, parameters.block, TensorRole::mlp_out_weight, tp)) {
  assert(activation_ != Activation::gelu || config.biases.mlp);
}

std::unique_ptr<BlockCompute::Saved> MlpBlock::make_saved() const { return std::make_unique<MlpSaved>(); }

void MlpBlock::bind(const BoundTensors& tensors) {
  up_.bind(tensors);
  if (activation_ == Activation::gelu) up_bias_ = tensors.at(TensorRole::mlp_in_bias);
  down_.bind(tensors);
}

std::int64_t MlpBlock::inner_cols(const Tensor& projected) const {
  return projected.shape[1] / (activation_ == Activation::gelu ? 1 : 2);
}

std::optional<Tensor> MlpBlock::scale_of_activation(Arena& memory) const {
  const bool measures = activation_ == Activation::swiglu && down_.takes_scale();
  return measures ? std::optional(allocate_fp8_scale(memory)) : std::nullopt;
}

Tensor MlpBlock::activated(const BlockContext& context, const Tensor& projected, Arena& memory,
                           const std::optional<Tensor>& scale) const {
  const Tensor inner = memory.allocate({context.tokens(), inner_cols(projected)}, context.dtype);
  if (activation_ != Activation::gelu) {
    context.ops.swiglu({.gate_up = projected, .y = inner, .largest = place_of_largest(scale), .gate = gate_kind()});
  } else {
    context.ops.gelu(projected, up_bias_.weight, inner);
  }
  return inner;
}

void MlpBlock::activation_backward(const BlockContext& context, const Tensor& inner_grad, const Tensor& projected,
                                   const std::optional<Tensor>& scale) const {
  switch (activation_) {
    case Activation::swiglu:
    case Activation::geglu:
      return context.ops.swiglu_backward({.dy = inner_grad,
                                          .gate_up = projected,
                                          .dgate_up = projected,
                                          .largest = place_of_largest(scale),
                                          .gate = gate_kind()});
    case Activation::gelu:
      return context.ops.gelu_backward(
          {.dy = inner_grad, .x = projected, .bias = up_bias_.weight, .dx = projected, .dbias = sums_of(context, up_bias_)});
  }
}

void MlpBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& saved_memory, Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const KeptMemory memory = forward_memory(context, saved_memory);
  saved.projected = up_.forward(context, args.input, memory, saved.projection);
  Arena& for_inner = memory.remade ? *memory.remade : context.workspace;
  const auto scale = scale_of_activation(for_inner);
  const bool keeps = memory.remade && !down_.is_trained_in_fp8();
  const Tensor inner = activated(context, saved.projected, keeps ? for_inner : context.workspace, scale);
  saved.inner = keeps ? inner : Tensor{};
  down_.forward(context,
                {.input = inner,
                 .residual = args.input,
                 .output = args.output,
                 .kept = memory.remade,
                 .scale = scale,
                 .results = &saved_memory},
                saved.down);
}

void MlpBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  if (runs_forward_again(context)) {
    KeptMemory memory = backward_memory(context, gradients);
    if (!up_.is_trained_in_fp8())
      memory.results = &gradients.memory();  // W reads the gradient that is written over `projected`
    saved.projected = up_.forward(context, saved.projection.input, memory, saved.projection);
  }
  const auto scale = scale_of_activation(gradients.memory());
  {
    const ArenaScope inner_scope(context.workspace);
    Tensor inner = saved.inner;
    const bool kept = inner.shape.rank() > 0 || saved.down.input.cols.shape.rank() > 0;
    if (!kept) inner = activated(context, saved.projected, down_.is_trained_in_fp8() ? context.workspace : gradients.memory());
    const Tensor inner_grad = context.workspace.allocate({context.tokens(), inner_cols(saved.projected)}, context.dtype);
    down_.backward(context, {.output_grad = args.output_grad, .input = inner, .input_grad = inner_grad}, gradients, saved.down);
    activation_backward(context, inner_grad, saved.projected, scale);
  }
  // The gradient was written over `projected`, whose values nothing reads from here on.
  up_.backward(context,
               {.output_grad = saved.projected,
                .residual = args.output_grad,
                .input_grad = args.input_grad,
                .scale = scale,
                .residual_sums = down_.residual_sums(context)},
               gradients, saved.projection);
}

}  // namespace pipetrain
