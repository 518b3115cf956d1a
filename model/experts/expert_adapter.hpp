// ExpertAdapter computes the adapters of the modules that are stacked into the matrices of all experts of a layer (see
// Adapter): gate and up, or down. Each expert's modules have adapters of their own, all of the same ranks and scales, so that
// grouped products compute those of all experts. A [E R, K]: of each expert, the first matrices of its modules, R the sum of
// their ranks. B of a module [E N, r]: the experts' second matrices one below the other.
//
// The ranks of tensor parallelism divide the experts' inner columns. Of what all ranks hold, A of gate and up and B of down,
// each computes the gradient of its own columns (GradientKind::shared).
#pragma once

#include <optional>
#include <utility>

#include "model/blocks/adapter_targets.hpp"
#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class ExpertAdapter {
 public:
  // Returns nothing if no module of the matrices has an adapter.
  static std::optional<ExpertAdapter> of(const ModelConfig& config, const Block& block, TensorRole matrices,
                                         const TensorParallel& tp);
  void bind(const BoundTensors& tensors);

  struct Saved {
    Tensor low;  // [rows, R], the scaled product of the rows with A
    void relocate(const Relocation& moved) { moved.move(low); }
  };

  struct ForwardArgs {
    Tensor rows;     // [rows, K]
    Tensor offsets;  // as in GroupedMatmulArgs
    Tensor output;   // [rows, N] +=
  };
  // kept: lasts until the weight gradients have been computed.
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& kept, Saved& saved) const;

  struct BackwardArgs {
    Tensor output_grad;  // [rows, N]
    Tensor rows;         // [rows, K]
    Tensor offsets;
    Tensor rows_grad;  // [rows, K] +=
  };
  // All but rows_grad must stay valid as long as WeightGradients requires.
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, const Saved& saved) const;

 private:
  explicit ExpertAdapter(AdapterTargets targets) : targets_(std::move(targets)) {}

  // Writes the product of `low` with the modules' second matrices to `out` [rows, N].
  void raise(const BlockContext& context, const Tensor& low, const Tensor& offsets, const Tensor& out) const;

  AdapterTargets targets_;  // of one expert
  BoundTensor in_;
};

}  // namespace pipetrain
