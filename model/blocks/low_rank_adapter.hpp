// LowRankAdapter computes the adapters of the modules that are stacked into one matrix (see Adapter): the product of the
// stacked first matrices A [R, K] with the inputs, R the sum of the modules' ranks, and that of the second matrices with the
// result. Of the second matrices it makes one, B [N, R], that is zero where a module's rows meet another's columns.
//
// The adapters' product is computed before the matrix's own, which adds it in its one rounding, so that no pass over the
// outputs adds the two. The same holds for the gradient of the inputs.
//
// A column-parallel matrix divides its outputs over the tensor-parallel ranks, and so B's rows; each rank has all of A. A
// row-parallel one divides its inputs, and so A's columns; each rank has all of B. Whatever every rank has all of gets the
// gradient of the rank's own tokens (GradientKind::replicated).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/blocks/adapter_targets.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/blocks/norm.hpp"

namespace pipetrain {

class LowRankAdapter {
 public:
  // Returns nothing if no module of the matrix has an adapter.
  static std::optional<LowRankAdapter> of(const ModelConfig& config, const Block& block, TensorRole matrix,
                                          const TensorParallel& tp);
  void bind(const BoundTensors& tensors);

  struct Saved {
    // The scaled product of the inputs with A: [T, R] of a column-parallel matrix, [Tr, R] of a row-parallel one.
    Tensor low;
    void relocate(const Relocation& moved) { moved.move(low); }
  };
  // Allocates what a forward saves, before the forward; `kept` lasts until the weight gradients have been computed. rows: as
  // in Saved.
  void reserve(std::int64_t rows, DType type, Arena& kept, Saved& saved) const {
    saved.low = kept.allocate({rows, targets_.rank}, type);
  }

  struct ForwardArgs {
    Tensor input;                         // [T, K]
    std::optional<Tensor> residual = {};  // as output; may be its memory
    Tensor output;                        // [T, N], or [Tr, N] of a row-parallel matrix: the product, plus the residual; output
    std::int64_t first_row = 0;           // of the input, counted in the microbatch's tokens
  };
  // inputs: the ranks that divide the inputs' columns, those of a row-parallel matrix.
  void forward(const BlockContext& context, const TensorParallel& inputs, const ForwardArgs& args, const Saved& saved) const;

  // All but input_grad and the residual must stay valid as long as WeightGradients requires.
  struct ColumnsBackwardArgs {
    Tensor output_grad;                      // [T, N]
    Tensor input;                            // [Tr, K], this rank's rows
    std::optional<Norm::Factors> norm = {};  // given: `input` is that of the norm in front of the adapters, which drop nothing
    std::optional<Tensor> residual = {};     // [Tr, K]
    Tensor input_grad;                       // [Tr, K], output: the gradient through the adapters, plus the residual
    // The number of the input's first row among the microbatch's tokens; not given: as the ranks divide them.
    std::optional<std::int64_t> first_row = {};
  };
  void backward_columns(const BlockContext& context, const ColumnsBackwardArgs& args, WeightGradients& gradients,
                        const Saved& saved) const;
  struct RowsBackwardArgs {
    Tensor output_grad;                   // [T, N], of all ranks' rows
    Tensor own_grad;                      // [Tr, N], this rank's rows of it
    Tensor input;                         // [T, K]
    std::optional<Tensor> residual = {};  // [T, K]; may be input_grad's memory
    Tensor input_grad;                    // [T, K], output, as above
  };
  void backward_rows(const BlockContext& context, const RowsBackwardArgs& args, WeightGradients& gradients,
                     const Saved& saved) const;

  const std::vector<AdapterTarget>& targets() const { return targets_.all; }
  bool drops(const BlockContext& context) const { return targets_.all.front().dropout.active(context); }
  // Returns the matrix with its adapters added, weight + scale B A: [N, K] in the workspace.
  Tensor merged(const BlockContext& context, const Tensor& weight) const;

 private:
  // Inputs of the adapters or their gradient: some of the microbatch's rows.
  struct InputRows {
    Tensor values;
    std::int64_t first_row = 0;
  };

  explicit LowRankAdapter(AdapterTargets targets) : targets_(std::move(targets)) {}

  Tensor second(const BlockContext& context) const;
  Tensor first_of(const AdapterTarget& target) const {
    return in_.weight.row_range(target.column, target.column + target.rank);
  }
  // Writes the target's inputs, some of them dropped, to `out`, plus the residual.
  void drop_inputs(const BlockContext& context, const AdapterTarget& target, const InputRows& input, const Tensor& out,
                   const std::optional<Tensor>& residual = {}) const;
  // low = the product of the inputs with A, summed over the ranks of tp, and scaled.
  void lower(const BlockContext& context, const TensorParallel& tp, const InputRows& input, const Tensor& low) const;
  // Returns the scaled product of the outputs' gradient with B, summed over the ranks of tp: `rows` rows of it.
  Tensor low_grad(const BlockContext& context, const TensorParallel& tp, const Tensor& output_grad, std::int64_t rows,
                  WeightGradients& gradients) const;
  // input_grad = the gradient that comes through the adapters, plus the residual.
  void find_input_grad(const BlockContext& context, const Tensor& low_grad, const std::optional<Tensor>& residual,
                       const InputRows& input_grad) const;
  void add_first_grads(const BlockContext& context, const Tensor& low_grad, const InputRows& input,
                       WeightGradients& gradients) const;
  // The same for inputs whose norm has not been computed: the gradient's rows take the norm's rows, and its columns the
  // weights.
  void add_normed_first_grads(const BlockContext& context, const Tensor& low_grad, const Tensor& input,
                              const Norm::Factors& norm, WeightGradients& gradients) const;
  void add_second_grads(const Tensor& output_grad, const Tensor& low, WeightGradients& gradients) const;

  AdapterTargets targets_;
  BoundTensor in_;
};

}  // namespace pipetrain
