// The arguments of matrix products and of the communication around them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"
#include "ops/accumulate.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

struct GatherMatmulArgs {
  TensorParallel tp = {};
  MatmulKind kind;
  Tensor shard;  // [Tr, in], this rank's rows
  Tensor w;      // [N, K]
  Tensor full;   // [T, in], output: all ranks' shards; unused, and may be shard's memory, if nothing is gathered
  Tensor out;    // [T, ...], output: full x w
  std::optional<Tensor> bias = {};  // [out's columns], added to each row
};

struct MatmulScatterArgs {
  TensorParallel tp = {};
  MatmulKind kind;
  Tensor in;                            // [T, ...]
  Tensor w;                             // [N, K]
  std::optional<Tensor> residual = {};  // [Tr, ...], added before the one rounding to out's dtype; may be out's memory
  Tensor out;                           // [Tr, ...], output
  std::optional<Tensor> bias = {};      // [out's columns], added to each row of the ranks' sum
  float factor = 1;                     // multiplies the ranks' sum, before or after its rounding; 1 where there is a residual
};

struct WeightGradArgs {
  Tensor dy;  // [T, N]
  Tensor x;   // [T, K]
  Tensor dw;  // [N, K] f32
  Accumulate accumulate = Accumulate::yes;
};

struct BackwardScatterArgs {
  TensorParallel tp = {};
  Tensor dy;                                // [T, N]
  Tensor w;                                 // [N, K]
  Tensor dx;                                // [Tr, K], output
  Tensor x;                                 // [T, K]
  Tensor dw;                                // [N, K] f32
  Accumulate accumulate = Accumulate::yes;  // for dw

  // The two operations that this one consists of.
  WeightGradArgs weight_grad() const { return {.dy = dy, .x = x, .dw = dw, .accumulate = accumulate}; }
  MatmulScatterArgs matmul_scatter() const { return {.tp = tp, .kind = MatmulKind::input_grad, .in = dy, .w = w, .out = dx}; }
};

// One rank's rows of a matrix, and all its rows.
struct GatherArgs {
  TensorParallel tp = {};
  Tensor shard;  // [Tr, ...]
  Tensor full;   // [T, ...], output
};

struct ScatterSumArgs {
  TensorParallel tp = {};
  Tensor full;  // [T, ...]
  Tensor out;   // [Tr, ...], output
};

// Several ranks hold the same slice of a tensor, or each of several slices.
struct SumCopiesArgs {
  TensorParallel tp = {};
  Tensor values;            // [N] f32, changed: this rank's share of its slice's sum
  std::int64_t slice = 0;   // the number of this rank's slice
  std::int64_t slices = 1;  // that all ranks together hold
};

}  // namespace pipetrain
