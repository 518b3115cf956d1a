// Sums of gradients that live in several places of one replica: on several tensor-parallel ranks, or in two accumulators.
// Everything is enqueued on the Ops' stream. Not thread-safe.
#pragma once

#include <vector>

#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// True when tensor-parallel ranks compute parts of the same gradients (ParameterLayout::partial_grads(), CopiedPart).
bool has_partial_gradients(const ModelConfig& config, int tp, bool sequence_parallel);

// Adds up, in rank order, the gradients of which every rank has a part. partial: those of one chunk
// (ParameterLayout::partial_grads()).
void sum_partial_grads(const Tensor& partial, const TensorParallel& tp, Ops& ops);

// A range of a slice of which several ranks hold copies (Parameter::copies). Each has computed a part of its gradient.
struct CopiedPart {
  Tensor gradient;          // [elements] f32
  std::int64_t slice = 0;   // the number of the rank's slice
  std::int64_t slices = 1;  // the number of slices of all ranks
};
// Adds up the gradients of each part. All ranks must list the same parts in the same order.
void sum_copied_grads(const std::vector<CopiedPart>& parts, const TensorParallel& tp, Ops& ops);
CopiedPart copied_part(const Parameter& parameter, const Tensor& gradient, const TensorParallel& tp);

// The gradients of a table that both ends of the model use, on one stage: views of `grads`, without elements if the stage lacks
// that end or nothing is shared. The embedding's accumulator and that of the other use, by the head or by a further prediction,
// are added exactly once, in this order, before the norm.
struct TiedGrads {
  Tensor embedding, copy;
  bool has_embedding() const { return embedding.shape.rank() > 0; }
  bool has_copy() const { return copy.shape.rank() > 0; }
};
// Returns the role of the table's other use (TensorSpec::tied_copy).
TensorRole tied_copy_role(const ModelConfig& config);
TiedGrads tied_grads(const ParameterLayout& layout, const ModelConfig& config, const Tensor& grads);
// For a stage with both ends: the sum goes into the embedding's accumulator. Two stages instead exchange copies of their
// accumulators, and each adds the other's with Ops::add. Both give the same bits, because addition of two numbers commutes.
void sum_tied_grads(const TiedGrads& tied, Ops& ops);

}  // namespace pipetrain
