// A norm, if the model has one there, then a column-parallel matrix: how attention, MLP and head begin. Under sequence
// parallelism the norm works on this rank's rows and its output is gathered in front of the matrix (Korthikanti et al. 2022).
#pragma once

#include <optional>
#include <utility>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/kept_memory.hpp"
#include "model/blocks/low_rank_adapter.hpp"
#include "model/blocks/norm.hpp"
#include "model/blocks/weight_magnitude.hpp"

namespace pipetrain {

class NormedProjection {
 public:
  struct Saved {
    Tensor input;  // [Tr, H]
    Norm::Statistics statistics;
    Tensor normed;              // [T, H]; without a shape in 8 bits, or if the backward computes it again or takes the input
    Fp8Matrix normed_fp8 = {};  // its cols, if the matrix is trained in 8 bits
    LowRankAdapter::Saved adapter = {};
    WeightMagnitude::Saved magnitude = {};

    void relocate(const Relocation& moved) {
      moved.move(input);
      statistics.relocate(moved);
      moved.move(normed);
      moved.move(normed_fp8);
      adapter.relocate(moved);
      magnitude.relocate(moved);
    }
  };

  NormedProjection(const ModelConfig& config, const MatrixRoles& roles, bool has_norm = true,
                   std::optional<LowRankAdapter> adapter = {})
      : roles_(roles), adapter_(std::move(adapter)) {
    if (adapter_) magnitude_ = WeightMagnitude::of(config, roles.weight);
    if (has_norm) norm_.emplace(config);
  }
  void bind(const BoundTensors& tensors);

  bool is_trained_in_fp8() const { return matrix_.is_trained_in_fp8(); }
  // Returns output [T, N], as a view of new memory. The matrix's input is not kept if nothing is gathered and memory.remade is
  // null or there is no norm, or if no gradient of weights needs it.
  Tensor forward(const BlockContext& context, const Tensor& input, const KeptMemory& memory, Saved& saved) const;

  struct BackwardArgs {
    Tensor output_grad;                   // [T, N]; must stay valid as long as WeightGradients requires
    std::optional<Tensor> residual = {};  // [Tr, H], the gradient along the residual connection
    Tensor input_grad;                    // [Tr, H], output; may be the memory of the forward's input
    std::optional<Tensor> scale = {};  // [2] f32 in 8 bits with one scale a tensor: ends with output_grad's largest magnitude
    std::optional<Tensor> residual_sums = {};  // [H] f32: the column sums of residual are added to it
  };
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, const Saved& saved) const;

 private:
  Tensor forward_in_fp8(const BlockContext& context, const Tensor& input, const KeptMemory& memory, Saved& saved) const;
  void backward_in_fp8(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                       const Saved& saved) const;
  // True when the backward needs the matrix's input for gradients of weights.
  bool needs_input() const { return matrix_.is_trained() || adapter_; }
  // Returns the arena of the norm's output; null: it is not kept. An adapter alone does not keep it, because its gradient
  // can be computed from the norm's input (norm_factors), or the output again in 1 % of a layer's time, and it has 3 % of the
  // layer's memory.
  Arena* arena_of_input(const BlockContext& context, const KeptMemory& memory) const;
  // Returns the matrix's input, as the gradient of the matrix reads it.
  Tensor matrix_input(const BlockContext& context, WeightGradients& gradients, const Saved& saved) const;
  // Returns the norm's factors where the adapter's gradients are computed from its input; half precision lacks the range.
  std::optional<Norm::Factors> norm_factors(const BlockContext& context, const Saved& saved) const;
  struct GradientArgs {
    Tensor product_grad;                     // [T, N]
    Tensor input;                            // [T, H], or [Tr, H] where no gathered input was kept
    std::optional<Norm::Factors> norm = {};  // given: `input` is the norm's
    std::optional<Tensor> residual = {};     // [Tr, H]
    Tensor input_grad;                       // [Tr, H], output
    std::optional<Tensor> scale = {};        // as in BackwardArgs; not read where magnitudes have changed the gradient
  };
  // input_grad = the gradient of the input through the matrix and the adapter, plus the residual.
  void multiply_back(const BlockContext& context, const GradientArgs& args, WeightGradients& gradients,
                     const Saved& saved) const;
  // Returns the gradient of the matrix's and the adapter's product, without the bias and the magnitudes.
  Tensor product_grad(const BlockContext& context, const Tensor& output_grad, const Saved& saved) const;
  void backward_without_norm(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                             const Saved& saved) const;

  std::optional<Norm> norm_;
  MatrixRoles roles_;
  std::optional<LowRankAdapter> adapter_;
  std::optional<WeightMagnitude> magnitude_;
  BoundTensor matrix_, bias_;
};

}  // namespace pipetrain
