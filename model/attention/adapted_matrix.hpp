// A matrix of latent attention, with the adapters of its modules where they have any.
#pragma once

#include <optional>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/low_rank_adapter.hpp"

namespace pipetrain {

class AdaptedMatrix {
 public:
  AdaptedMatrix(const ModelConfig& config, const Block& block, TensorRole role, const TensorParallel& tp)
      : role_(role), adapter_(LowRankAdapter::of(config, block, role, tp)) {}
  void bind(const BoundTensors& tensors);

  std::int64_t rows() const { return matrix_.weight.rows(); }

  struct ForwardArgs {
    Tensor input;                // [rows, K], all on this rank
    Tensor output;               // [rows, N], output
    std::int64_t first_row = 0;  // of the input, counted in the microbatch's tokens
  };
  // Allocates what forward() saves for as many rows of input, if the matrix has adapters. kept: lasts until the weight
  // gradients have been computed.
  void reserve(const BlockContext& context, std::int64_t rows, Arena& kept, LowRankAdapter::Saved& saved) const;
  // saved: reserved.
  void forward(const BlockContext& context, const ForwardArgs& args, const LowRankAdapter::Saved& saved) const;
  // Returns the matrix with its adapters added, in the workspace where there are any.
  Tensor merged(const BlockContext& context) const;

  struct BackwardArgs {
    Tensor output_grad;                   // [T, N]
    Tensor input;                         // [T, K]
    std::optional<Tensor> residual = {};  // [Tr, K], may be input_grad's memory
    Tensor input_grad;                    // [Tr, K], output: summed over the ranks, plus the residual
  };
  // The backward of a matrix whose rows are divided over the tensor-parallel ranks. All but the last two stay valid as long as
  // WeightGradients requires.
  void backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                const LowRankAdapter::Saved& saved) const;
  // The same for a matrix that every rank has whole, on rows of its own from first_row on and without a residual: under
  // sequence parallelism each adds the gradient of its own tokens.
  void backward_own(const BlockContext& context, const BackwardArgs& args, std::int64_t first_row, WeightGradients& gradients,
                    const LowRankAdapter::Saved& saved) const;

 private:
  TensorRole role_;
  std::optional<LowRankAdapter> adapter_;
  BoundTensor matrix_;
};

}  // namespace pipetrain
