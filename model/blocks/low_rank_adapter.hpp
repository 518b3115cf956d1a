// LowRankAdapter computes the adapters of the modules that are stacked into one matrix (see Adapter): the product of the
// stacked first matrices A [R, K] with the inputs, R the sum of the modules' ranks, and that of the second matrices with the
// result. Of the second matrices it makes one, B [N, R], that is zero where a module's rows meet another's columns.
//
// A column-parallel matrix divides its outputs over the tensor-parallel ranks, and so B's rows; each rank has all of A. A
// row-parallel one divides its inputs, and so A's columns; each rank has all of B. Whatever every rank has all of gets the
// gradient of the rank's own tokens (GradientKind::replicated).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"

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

  struct ColumnsForwardArgs {
    Tensor input;   // [T, K]
    Tensor output;  // [T, N] +=
  };
  // Allocates what a forward saves, before the forward; `kept` lasts until the weight gradients have been computed. rows: as
  // in Saved.
  void reserve(std::int64_t rows, DType type, Arena& kept, Saved& saved) const {
    saved.low = kept.allocate({rows, rank_}, type);
  }
  void forward_columns(const BlockContext& context, const ColumnsForwardArgs& args, const Saved& saved) const;
  struct ColumnsBackwardArgs {
    Tensor output_grad;  // [T, N]
    Tensor input;        // [Tr, K], this rank's rows
    Tensor input_grad;   // [Tr, K] +=
  };
  // All but input_grad must stay valid as long as WeightGradients requires.
  void backward_columns(const BlockContext& context, const ColumnsBackwardArgs& args, WeightGradients& gradients,
                        const Saved& saved) const;

  struct RowsForwardArgs {
    Tensor input;                         // [T, K]
    std::optional<Tensor> residual = {};  // [Tr, N]
    Tensor output;                        // [Tr, N], output: the adapters' product, plus the residual
  };
  void forward_rows(const BlockContext& context, const RowsForwardArgs& args, const Saved& saved) const;
  struct RowsBackwardArgs {
    Tensor output_grad;  // [T, N], of all ranks' rows
    Tensor own_grad;     // [Tr, N], this rank's rows of it
    Tensor input;        // [T, K]
    Tensor input_grad;   // [T, K] +=
  };
  // All but input_grad must stay valid as long as WeightGradients requires.
  void backward_rows(const BlockContext& context, const RowsBackwardArgs& args, WeightGradients& gradients,
                     const Saved& saved) const;

  // The rows of the stacked matrix that belong to a module with an adapter.
  struct TargetRows {
    std::int64_t first = 0, count = 0;
  };
  std::vector<TargetRows> target_rows() const;
  // Returns the matrix with its adapters added, weight + scale B A: [N, K] in the workspace.
  Tensor merged(const BlockContext& context, const Tensor& weight) const;

 private:
  struct Target {
    TensorRole role;                    // of its second matrix
    std::int64_t row = 0, rows = 0;     // its rows of the stacked matrix
    std::int64_t column = 0, rank = 0;  // its columns of B, and rows of A
    float scale = 1;
    DropoutSite dropout;
    BoundTensor out = {};
  };
  // Inputs of the adapters or their gradient: some of the microbatch's rows.
  struct InputRows {
    Tensor values;
    std::int64_t first_row = 0;
  };

  LowRankAdapter() = default;
  // True where one module has all rows, so that its second matrix is B.
  bool is_single() const { return targets_.size() == 1 && targets_.front().rows == rows_; }
  bool drops(const BlockContext& context) const { return targets_.front().dropout.active(context); }
  Tensor second(const BlockContext& context) const;
  Tensor first_of(const Target& target) const { return in_.weight.row_range(target.column, target.column + target.rank); }
  // Returns a target's columns of `low`, in `memory` unless they are all of it.
  Tensor columns_of(const BlockContext& context, const Tensor& low, const Target& target, Arena& memory) const;
  // Writes the target's inputs, some of them dropped, to `out`.
  void drop_inputs(const BlockContext& context, const Target& target, const InputRows& input, const Tensor& out) const;
  // low = the product of the inputs with A, summed over the ranks of tp, and scaled.
  void lower(const BlockContext& context, const TensorParallel& tp, const InputRows& input, const Tensor& low) const;
  void scale(const BlockContext& context, const Tensor& low) const;
  // Adds the gradient that comes through the adapters to that of the inputs.
  void add_input_grad(const BlockContext& context, const Tensor& low_grad, const InputRows& input_grad) const;
  void add_first_grads(const BlockContext& context, const Tensor& low_grad, const InputRows& input,
                       WeightGradients& gradients) const;
  void add_second_grads(const Tensor& output_grad, const Tensor& low, WeightGradients& gradients) const;

  TensorRole in_role_ = TensorRole::qkv_adapter_in;
  std::vector<Target> targets_;
  std::int64_t rows_ = 0, rank_ = 0;  // N of the matrix on this rank, and R
  std::int64_t first_column_ = 0;     // of this rank's inputs, counted in the module's
  BoundTensor in_;
};

}  // namespace pipetrain
