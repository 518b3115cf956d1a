// Norm, gated MLP (Shazeer 2020), residual. The inner columns are spread over the tensor-parallel group.
#pragma once

#include "model/block_compute.hpp"
#include "model/normed_projection.hpp"
#include "model/residual_projection.hpp"

namespace pipetrain {

class MlpBlock final : public BlockCompute {
 public:
  MlpBlock(const ModelConfig& config, const BlockParameters& parameters);

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const Tensor& weights, const Tensor& grads) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  // [T, I] in `memory`.
  Tensor gated(const BlockContext& context, const Tensor& gate_up, Arena& memory) const;

  BlockParameters parameters_;
  NormedProjection gate_up_;
  ResidualProjection down_;
};

}  // namespace pipetrain
