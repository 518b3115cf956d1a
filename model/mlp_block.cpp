#include "model/mlp_block.hpp"

namespace pipetrain {
namespace {

struct MlpSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor gate_up;  // [T, 2I]
  Tensor inner;    // [T, I], without a shape when the backward is to make it again
};

}  // namespace

MlpBlock::MlpBlock(const ModelConfig& config, const BlockParameters& parameters)
    : parameters_(parameters), gate_up_(config.norm_eps) {}

std::unique_ptr<BlockCompute::Saved> MlpBlock::make_saved() const { return std::make_unique<MlpSaved>(); }

void MlpBlock::bind(const Tensor& weights, const Tensor& grads) {
  const std::vector<BoundTensor> bound = bind_tensors(parameters_, weights, grads);
  gate_up_.bind(bound.at(0), bound.at(1));
  down_.bind(bound.at(2));
}

Tensor MlpBlock::gated(const BlockContext& context, const Tensor& gate_up, Arena& memory) const {
  const Tensor inner = memory.allocate({context.tokens(), gate_up.cols() / 2}, context.dtype);
  context.ops.swiglu(gate_up, inner);
  return inner;
}

void MlpBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& saved_memory, Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const KeptMemory memory = forward_memory(context, saved_memory);
  saved.gate_up = gate_up_.forward(context, args.input, memory, saved.projection);
  const Tensor inner = gated(context, saved.gate_up, memory.remade ? *memory.remade : context.workspace);
  saved.inner = memory.remade ? inner : Tensor{};
  down_.forward(context, inner, args.input, args.output);
}

void MlpBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  if (context.recompute == Recompute::full) {
    KeptMemory memory = backward_memory(context, gradients);
    memory.results = &gradients.memory();  // as W reads what takes the place of gate_up
    saved.gate_up = gate_up_.forward(context, saved.projection.input, memory, saved.projection);
  }
  const Tensor gate_up_grad = saved.gate_up;  // in its place: nothing reads gate_up after that
  {
    const ArenaScope inner_scope(context.workspace);
    const Tensor inner = saved.inner.shape.rank() > 0 ? saved.inner : gated(context, saved.gate_up, gradients.memory());
    const Tensor inner_grad = context.workspace.allocate(inner.shape, context.dtype);
    down_.backward(context, args.output_grad, inner, inner_grad, gradients);
    context.ops.swiglu_backward(inner_grad, saved.gate_up, gate_up_grad);
  }
  gate_up_.backward(context, gate_up_grad, &args.output_grad, args.input_grad, gradients, saved.projection);
}

}  // namespace pipetrain
