// Sums of gradients that live in several places of one replica: on several tensor-parallel ranks, or in two accumulators.
// Everything is enqueued on the Ops' stream. Not thread-safe.
#pragma once

#include "model/parameters/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// With sequence parallelism every rank has of what all ranks replicate (GradientKind) the gradients of its own rows only: adds
// them up, in rank order. Does nothing without it. replicated: those of one chunk (ParameterLayout::replicated_grads).
void sum_replicated_grads(const Tensor& replicated, const TensorParallel& tp, Ops& ops);

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
