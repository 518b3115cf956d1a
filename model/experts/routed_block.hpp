// Norm, routed experts, residual: each token passes through the few experts that the router chooses for it, every one a gated
// MLP (Shazeer et al. 2017, "Outrageously Large Neural Networks"). The inner columns of each expert are spread over the
// tensor-parallel group, and the experts over the expert-parallel one. One more expert, which all tokens pass through, may be
// added to them.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/kept_memory.hpp"
#include "model/blocks/norm.hpp"
#include "model/experts/expert_adapter.hpp"
#include "model/experts/expert_biases.hpp"
#include "model/experts/expert_exchange.hpp"
#include "model/experts/router.hpp"
#include "model/experts/shared_expert.hpp"

namespace pipetrain {

class RoutedBlock final : public BlockCompute {
 public:
  RoutedBlock(const ModelConfig& config, const Block& block, const TensorParallel& tp)
      : norm_(config),
        router_(config),
        exchange_(config.experts),
        gate_(config.experts.clamp.exists() ? GateKind::clamped : GateKind::silu),
        clamps_{static_cast<float>(config.experts.clamp.alpha), static_cast<float>(config.experts.clamp.limit)},
        in_adapter_(ExpertAdapter::of(config, block, TensorRole::expert_in_weight, tp)),
        out_adapter_(ExpertAdapter::of(config, block, TensorRole::expert_out_weight, tp)) {
    if (config.experts.biases) biases_.emplace();
    if (config.experts.shared_intermediate > 0) shared_.emplace(config, block, tp);
  }

  std::unique_ptr<Saved> make_saved() const override;
  void bind(const BoundTensors& tensors) override;
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const override;
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, Saved& saved) const override;

 private:
  struct RoutedSaved;

  // Runs the forward up to the activation of the experts.
  void expand(const BlockContext& context, const Tensor& input, const KeptMemory& memory, RoutedSaved& saved) const;
  // Returns the norm's output of all ranks, [T, H], in `memory`. largest: output, the largest magnitude of this rank's rows.
  Tensor normed(const BlockContext& context, const RoutedSaved& saved, Arena& memory,
                const std::optional<Tensor>& largest = {}) const;
  // Returns the rows that this rank's experts compute, [R, H], in `memory`. all: [T, H], of this rank's tokens.
  Tensor rows_of(const BlockContext& context, const Tensor& all, const RoutedSaved& saved, Arena& memory) const;
  // Returns the rows of this rank's tokens, in the workspace or where they are; computed: those of this rank's experts.
  Tensor brought_back(const BlockContext& context, const Tensor& computed, const RoutedSaved& saved) const;
  // Returns the inputs of the experts' last matrices, [R, I], in `memory`. largest: output, their largest magnitude.
  Tensor weighed_inner(const BlockContext& context, const RoutedSaved& saved, Arena& memory,
                       const std::optional<Tensor>& largest = {}) const;
  // Returns the gradient of all ranks' rows of the output; it stays valid as long as WeightGradients requires.
  Tensor gathered(const BlockContext& context, const Tensor& output_grad, WeightGradients& gradients) const;
  struct MatrixGradients {
    Tensor output_grads;  // [R, H]
    Tensor inner;         // [R, I], the weighed inputs of the experts' last matrices
    Tensor inner_grad;    // [R, I], output
  };
  // Computes the gradients of the experts' last matrices, of their adapters and of their inputs.
  void last_matrices_backward(const BlockContext& context, const MatrixGradients& args, WeightGradients& gradients,
                              const RoutedSaved& saved) const;
  struct OutputGradients {
    Tensor output_grad;                     // [T, H]
    std::optional<Tensor> projected_scale;  // see scale_beside(): for the gradient of `projected`
  };
  // Returns the gradient of the rows' weights, [R] f32, in the workspace. The gradient of `projected` is written over it.
  Tensor experts_backward(const BlockContext& context, const OutputGradients& args, WeightGradients& gradients,
                          const RoutedSaved& saved) const;
  std::int64_t inner_cols() const { return out_.weight.cols(); }
  std::int64_t row_count(const BlockContext& context) const {
    return context.ep.part.is_whole() ? router_.rows(context) : exchange_.rows(context);
  }

  Norm norm_;
  Router router_;
  ExpertExchange exchange_;
  std::optional<SharedExpert> shared_;
  GateKind gate_;
  GateClamps clamps_;
  std::optional<ExpertAdapter> in_adapter_, out_adapter_;
  std::optional<ExpertBiases> biases_;
  BoundTensor in_, out_;  // [E 2I, H] and [E H, I]: the experts' matrices one below the other
};

}  // namespace pipetrain
