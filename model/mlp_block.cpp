#include "model/mlp_block.hpp"

namespace pipetrain {
namespace {

struct MlpSaved final : BlockCompute::Saved {
  NormedProjection::Saved projection;
  Tensor gate_up;  // [T, 2I]
  Tensor inner;    // [T, I]; kept rather than recomputed from gate_up: a third more memory, one pass less
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

void MlpBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  saved.gate_up = gate_up_.forward(context, args.input, memory, saved.projection);
  saved.inner = memory.allocate({context.tokens(), saved.gate_up.cols() / 2}, context.dtype);
  context.ops.swiglu(saved.gate_up, saved.inner);
  down_.forward(context, saved.inner, args.input, args.output);
}

void MlpBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved_base) const {
  auto& saved = static_cast<MlpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  const Tensor gate_up_grad = gradients.allocate(saved.gate_up.shape, context.dtype);
  {
    const ArenaScope inner(context.workspace);
    const Tensor inner_grad = context.workspace.allocate(saved.inner.shape, context.dtype);
    down_.backward(context, args.output_grad, saved.inner, inner_grad, gradients);
    context.ops.swiglu_backward(inner_grad, saved.gate_up, gate_up_grad);
  }
  gate_up_.backward(context, gate_up_grad, &args.output_grad, args.input_grad, gradients, saved.projection);
}

}  // namespace pipetrain
