// The slices of a block's logical tensors that one tensor-parallel rank holds, and how they are stacked into
// the tensors that the operations use. Offsets in the stage's arenas come later.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config/tensor_spec.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Says how a stored tensor's gradient is computed.
enum class GradientKind {
  shared,      // every rank holds all of it, and computes the gradient of its own heads or of its own columns of the experts
  replicated,  // every rank holds all of it; with sequence parallelism each sums the gradient of its own tokens
  summed,      // this rank's slice, to which operations other than matrix products add
  product,     // this rank's slice of a matrix, by Ops::weight_grad
};

struct StoredPlan {
  TensorRole role;
  Shape shape;
  GradientKind gradient = GradientKind::product;
  ParameterGroup group = ParameterGroup::dense;  // the group of all its pieces
};

// One slice, and the stored tensor of its block into which it is stacked.
struct Piece {
  Parameter parameter;
  std::size_t stored = 0;
};

struct BlockPlan {
  std::vector<StoredPlan> stored;
  std::vector<Piece> pieces;  // stacked by rows inside a stored tensor, in this order
};

// Rounds a rank's rows of a token table or output matrix up to the number that is stored: StoredTensor says
// why. A rank without rows of its own, because there are fewer classes than ranks, stores zeros.
std::int64_t whole_vectors(std::int64_t rows);

// tensors: all of one block; tensors of one role are adjacent.
BlockPlan plan_block(const std::vector<TensorSpec>& tensors, int tp_rank, int tp_size);

}  // namespace pipetrain
