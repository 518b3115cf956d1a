// Matrix products with the communication of a tensor-parallel group around them, overlapped with the products if that pays.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/buffer.hpp"
#include "ops/arguments/all.hpp"
#include "ops/cuda/gemm/gemm.hpp"
#include "ops/cuda/ops_stream.hpp"

namespace pipetrain::cuda {

// Has the operations of Ops with the same names; enqueues on `ops`, which must outlive it. Not thread-safe.
class ParallelMatmul {
 public:
  explicit ParallelMatmul(OpsStream& ops);

  void gather_matmul(const GatherMatmulArgs& args);
  void matmul_scatter(const MatmulScatterArgs& args);
  void weight_grad(const WeightGradArgs& args);
  void fp8_matmul(const Fp8MatmulArgs& args);
  // Runs the part of Ops::backward_scatter that overlaps the ranks' sum with the weight gradient. Returns
  // false, and enqueues nothing, if that is not worthwhile.
  bool backward_scatter_in_pieces(const BackwardScatterArgs& args);

  // Enqueues a product of this rank alone.
  void multiply(GemmOperands operands);

  // A matrix that is summed over the ranks.
  struct PartialProduct {
    std::int64_t rows, cols;
    // Enqueues these rows of this rank's share.
    std::function<void(std::int64_t begin, std::int64_t end, const Tensor& part)> make;
    std::optional<Tensor> residual;  // like `out`
    Tensor out;                      // this rank's rows of the sum
    bool whole = false;              // can only be computed for all rows at once
  };
  // Adds the ranks' shares, and the residual, into this rank's rows of the sum; with several ranks only.
  void sum_over_ranks(const TensorParallel& tp, const PartialProduct& product);

 private:
  OpsStream& ops_;
  Gemm gemm_;
  Buffer workspace_;

  PartialProduct partial_product(const MatmulScatterArgs& args);
  bool sums_in_pieces(const TensorParallel& tp, const PartialProduct& product, const std::function<void()>& meanwhile);
  void matmul(const MatmulScatterArgs& args);  // for a single rank, as fp8_product
  void fp8_product(const Fp8MatmulArgs& args);
  void add_bias_apart(const Tensor& x, const Tensor& bias);
};

}  // namespace pipetrain::cuda
