// What one tensor-parallel rank holds of one block, before it has a place in the stage's arenas: which slices of which logical
// tensors, and how they are stacked into the tensors that the operations use.
#pragma once

#include <cstddef>
#include <vector>

#include "model/config/tensor_spec.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// How a stored tensor's gradient is computed.
enum class GradientKind {
  shared,      // every rank holds all of it, and computes the share of its own heads
  replicated,  // every rank holds all of it; under sequence parallelism each has the part of its own tokens
  summed,      // this rank's slice, which other operations than matrix products add to
  product,     // this rank's slice of a matrix, by Ops::weight_grad
};

struct StoredPlan {
  TensorRole role;
  Shape shape;
  GradientKind gradient = GradientKind::product;
  ParameterGroup group = ParameterGroup::dense;  // of all its pieces
};

// One slice, and which stored tensor of its block it is stacked into.
struct Piece {
  Parameter parameter;
  std::size_t stored = 0;
};

struct BlockPlan {
  std::vector<StoredPlan> stored;
  std::vector<Piece> pieces;  // stacked by rows inside a stored tensor, in this order
};

// A rank's rows of a token table or an output matrix as they are stored: StoredTensor says why. A rank without a row of its
// own, of fewer classes than there are ranks, has zeros.
std::int64_t whole_vectors(std::int64_t rows);

// tensors: of one block, those of one role next to each other.
BlockPlan plan_block(const std::vector<TensorSpec>& tensors, int tp_rank, int tp_size);

}  // namespace pipetrain
