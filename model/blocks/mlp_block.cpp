#include "model/blocks/mlp_block.hpp"

#include <cassert>

namespace pipetrain {
namespace {

struct MlpSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor projected;  // [T, 2I] gate and up, or [T, I]
  Tensor inner;      // [T, I], without a shape when the backward is to make it again
};

}  // namespace

MlpBlock::MlpBlock(const ModelConfig& config, const BlockParameters& parameters)
    : parameters_(parameters),
      activation_(config.activation),
      up_(config, {TensorRole::mlp_in_weight}),
      down_({TensorRole::mlp_out_weight, with_bias(config, TensorRole::mlp_out_bias)},
            {dropout_name(parameters.block.layer, "mlp"), config.dropout.residual}) {
  assert((activation_ == Activation::gelu) == config.biases);
}

std::unique_ptr<BlockCompute::Saved> MlpBlock::make_saved() const { return std::make_unique<MlpSaved>(); }

void MlpBlock::bind(const std::vector<Tensor>& weights, const std::vector<Tensor>& grads) {
  const BoundTensors tensors(parameters_, weights, grads);
  up_.bind(tensors);
  if (activation_ == Activation::gelu) up_bias_ = tensors.at(TensorRole::mlp_in_bias);
  down_.bind(tensors);
}

Tensor MlpBlock::activated(const BlockContext& context, const Tensor& projected, Arena& memory) const {
  const bool gated = activation_ == Activation::swiglu;
  const Tensor inner = memory.allocate({context.tokens(), projected.cols() / (gated ? 2 : 1)}, context.dtype);
  if (gated) {
    context.ops.swiglu(projected, inner);
  } else {
    context.ops.gelu(projected, up_bias_.weight, inner);
  }
  return inner;
}

void MlpBlock::activation_backward(const BlockContext& context, const Tensor& inner_grad, const Tensor& projected) const {
  switch (activation_) {
    case Activation::swiglu:
      return context.ops.swiglu_backward(inner_grad, projected, projected);
    case Activation::gelu:
      return context.ops.gelu_backward(
          {.dy = inner_grad, .x = projected, .bias = up_bias_.weight, .dx = projected, .dbias = up_bias_.grad});
  }
}

void MlpBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& saved_memory, Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const KeptMemory memory = forward_memory(context, saved_memory);
  saved.projected = up_.forward(context, args.input, memory, saved.projection);
  const Tensor inner = activated(context, saved.projected, memory.remade ? *memory.remade : context.workspace);
  saved.inner = memory.remade ? inner : Tensor{};
  down_.forward(context, {.input = inner, .residual = args.input, .output = args.output});
}

void MlpBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  if (runs_forward_again(context)) {
    KeptMemory memory = backward_memory(context, gradients);
    memory.results = &gradients.memory();  // as W reads what takes the place of `projected`
    saved.projected = up_.forward(context, saved.projection.input, memory, saved.projection);
  }
  {
    const ArenaScope inner_scope(context.workspace);
    const Tensor inner = saved.inner.shape.rank() > 0 ? saved.inner : activated(context, saved.projected, gradients.memory());
    const Tensor inner_grad = context.workspace.allocate(inner.shape, context.dtype);
    down_.backward(context, {.output_grad = args.output_grad, .input = inner, .input_grad = inner_grad}, gradients);
    activation_backward(context, inner_grad, saved.projected);
  }
  // Its gradient has taken its place: nothing reads the values after that.
  up_.backward(context, {.output_grad = saved.projected, .residual = args.output_grad, .input_grad = args.input_grad},
               gradients, saved.projection);
}

}  // namespace pipetrain
