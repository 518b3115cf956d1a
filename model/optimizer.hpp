// The end of a step on one rank of a stage: sums over what is replicated or tied, the global gradient norm, clipping and AdamW.
// All arenas are flat f32 as ParameterLayout describes; everything is enqueued on the Ops' stream. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// --- Gradients that live in several places ---

// With sequence parallelism every rank has of what all ranks replicate (GradientKind) the gradients of its own rows only: adds
// them up, in rank order, for this chunk. Does nothing without it.
void sum_replicated_grads(const ParameterLayout& layout, int chunk, const TensorParallel& tp, Ops& ops, const Tensor& grads);

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

// --- The global norm ---

// The parameters (indices into layout.parameters, in its order) whose gradients this rank counts in the norm: replicated ones
// on rank 0 only, tied copies never.
std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank);
// sums [counted parameters] f64: the sum of squares of each one's gradient slice, by Ops::square_sum.
void square_sums(const ParameterLayout& layout, int tp_rank, Ops& ops, const Tensor& grads, const Tensor& sums);

struct NormPart {
  std::string name;  // the logical tensor's
  int tp_rank = 0;   // of the slice
  double square_sum = 0;
};
// The square root of all parts together, added in fp64 in the order of (name, tp_rank) whatever order they come in (one rank's
// slices of one tensor come in its layout's order): the same bits for every partition over stages. Pure.
double global_norm(std::vector<NormPart> parts);
// What clipping multiplies gradients by: max_norm / norm when the norm is larger, else 1. max_norm 0 means no clipping.
float clip_factor(double norm, double max_norm);

// --- AdamW ---

struct OptimizerArenas {
  Tensor weights, m, v;  // [layout.weight_elements] f32
  Tensor grads;          // [layout.grad_elements] f32
  Tensor rounded;        // [layout.weight_elements] bf16, the weights rounded after each step; without memory: none
};
// One step over all parameters, each stored tensor once; settings.weight_decay applies to those that decay. A tied weight that
// this stage stores once takes its gradient from the embedding's accumulator.
void adamw_step(const ParameterLayout& layout, Ops& ops, const OptimizerArenas& arenas, const AdamW& settings);

}  // namespace pipetrain
