// Sums of gradients that live in several places of one replica: on several tensor-parallel ranks, or in two accumulators.
// Everything is enqueued on the Ops' stream. Not thread-safe.
#pragma once

#include <vector>

#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// Whether tensor-parallel ranks compute parts of the same gradients (ParameterLayout::partial_grads(), CopiedGradients).
bool has_partial_gradients(const ModelConfig& config, int tp, bool sequence_parallel);

// Adds up, in rank order, the gradients of which every rank has a part. partial: those of one chunk
// (ParameterLayout::partial_grads()).
void sum_partial_grads(const Tensor& partial, const TensorParallel& tp, Ops& ops);

// A run of a slice of which several ranks hold copies (Parameter::copies): each has computed a share of its gradient.
struct CopiedPart {
  Tensor gradient;          // [elements] f32
  std::int64_t slice = 0;   // the number of the rank's slice
  std::int64_t slices = 1;  // that all ranks together hold
};
// Adds up the shares of each part, which the other ranks list in the same order.
void sum_copied_grads(const std::vector<CopiedPart>& parts, const TensorParallel& tp, Ops& ops);
// The number of a parameter's slice among those of the ranks, and how many there are.
CopiedPart copied_part(const Parameter& parameter, const Tensor& gradient, const TensorParallel& tp);

// Where a stage keeps the gradients of tied embeddings: views of `grads`, without elements when the stage lacks that end (or
// nothing is tied). The embedding's and the head's accumulator are added exactly once, in this order, before the norm.
struct TiedGrads {
  Tensor embedding, head;
  bool has_embedding() const { return embedding.shape.rank() > 0; }
  bool has_head() const { return head.shape.rank() > 0; }
};
TiedGrads tied_grads(const ParameterLayout& layout, const ModelConfig& config, const Tensor& grads);
// For a stage with both ends: the embedding's accumulator gets the sum. Two stages instead exchange copies of their accumulator
// and each adds the other's with Ops::add, which gives the same bits, because addition of two numbers commutes.
void sum_tied_grads(const TiedGrads& tied, Ops& ops);

}  // namespace pipetrain
