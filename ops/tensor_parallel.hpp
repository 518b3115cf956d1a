// The tensor-parallel group of an operation, and the two products of a matrix.
#pragma once

#include <cstdint>

#include "core/process_group.hpp"
#include "core/tensor.hpp"

namespace pipetrain {

// The way in which a layer's matrices are spread over the tensor-parallel group. With one rank nothing is communicated.
struct TensorParallel {
  Group* group = nullptr;          // null means one rank
  bool sequence_parallel = false;  // norms and residuals on shards of the tokens (RowSplit), gathered in front of matrices

  int size() const { return group == nullptr ? 1 : group->size(); }
  int rank() const { return group == nullptr ? 0 : group->rank(); }
  // Return the rows of `tokens` that this rank's norms and residuals hold.
  std::int64_t shard_begin(std::int64_t tokens) const { return sequence_parallel ? RowSplit(tokens, size()).begin(rank()) : 0; }
  std::int64_t shard_rows(std::int64_t tokens) const {
    return sequence_parallel ? RowSplit(tokens, size()).count(rank()) : tokens;
  }
};

enum class MatmulKind {
  forward,     // y [T, N] = x [T, K] w^T
  input_grad,  // dx [T, K] = dy [T, N] w
};
// Returns the columns of a product's result. A result without rows does not know them itself.
inline std::int64_t product_cols(MatmulKind kind, const Tensor& w) { return kind == MatmulKind::forward ? w.rows() : w.cols(); }

}  // namespace pipetrain
