// Norm, MLP, residual. The MLP is gated (Shazeer 2020), or one matrix and a GELU. The inner columns are spread over the
// tensor-parallel group.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/normed_projection.hpp"
#include "model/blocks/residual_projection.hpp"

namespace pipetrain {

class MlpBlock final : public BlockCompute {
 public:
  MlpBlock(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  // Returns the activation [T, I], in `memory`, of the first matrix's output: [T, 2I] gate and up, or [T, I].
  Tensor activated(const BlockContext& context, const Tensor& projected, Arena& memory,
                   const std::optional<Tensor>& scale = {}) const;
  // Works in place: `projected` becomes its gradient.
  void activation_backward(const BlockContext& context, const Tensor& inner_grad, const Tensor& projected,
                           const std::optional<Tensor>& scale) const;
  std::int64_t inner_cols(const Tensor& projected) const;
  // Returns memory for the scale of the activation or of its gradient if its kernel finds the largest magnitude
  // for products in 8 bits; otherwise nothing.
  std::optional<Tensor> scale_of_activation(Arena& memory) const;

  GateKind gate_kind() const { return activation_ == Activation::geglu ? GateKind::gelu : GateKind::silu; }

  Activation activation_;
  NormedProjection up_;
  BoundTensor up_bias_;  // for a GELU, which adds it
  ResidualProjection down_;
};

}  // namespace pipetrain
