// Sums of gradients that live in several places of one replica: on several tensor-parallel ranks, or in two accumulators.
// Everything is enqueued on the Ops' stream. Not thread-safe.
#pragma once

#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// With sequence parallelism every rank computes gradients of its own rows only for the tensors that all ranks
// replicate (GradientKind). Adds them up, in rank order; does nothing without sequence parallelism. replicated:
// those of one chunk (ParameterLayout::replicated_grads).
void sum_replicated_grads(const Tensor& replicated, const TensorParallel& tp, Ops& ops);

// The gradients of tied embeddings on one stage: views of `grads`, without elements if the stage lacks that end or nothing is
// tied. The embedding's and the head's accumulator are added exactly once, in this order, before the norm.
struct TiedGrads {
  Tensor embedding, head;
  bool has_embedding() const { return embedding.shape.rank() > 0; }
  bool has_head() const { return head.shape.rank() > 0; }
};
TiedGrads tied_grads(const ParameterLayout& layout, const ModelConfig& config, const Tensor& grads);
// For a stage with both ends: the sum goes into the embedding's accumulator. Two stages instead exchange copies of their
// accumulators, and each adds the other's with Ops::add. Both give the same bits, because addition of two numbers commutes.
void sum_tied_grads(const TiedGrads& tied, Ops& ops);

}  // namespace pipetrain
