// The arguments of the operations of routed blocks, in which every token passes through a few of many experts (Shazeer et al.
// 2017, "Outrageously Large Neural Networks").
//
// E is the number of experts, C the number that each token chooses, and R = T C the number of rows: one for each token and
// chosen expert, sorted by expert, the rows of one expert by token. Other letters as in ops/ops.hpp.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"
#include "ops/accumulate.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

// The experts of each token, and the order of the rows.
struct Routing {
  Tensor probabilities;  // [T, E] f32: softmax of the logits
  Tensor log_sum_exp;    // [T] f32: of the logits
  Tensor experts;        // [T, C] i32: those chosen, in ascending order
  Tensor places;         // [T, C] i32: the row of each of them
  Tensor tokens;         // [R] i32: the token of each row
  Tensor weights;        // [R] f32: the factor of each row's output
  Tensor offsets;        // [E + 1] i32: the first row of each expert, then R
};

struct RouteArgs {
  Tensor logits;            // [T, E] f32
  bool normalised = false;  // the weights of a token's experts are divided by their sum
  Routing routing;          // output
};

// The losses that keep the experts' loads even, for one layer.
struct RouterLosses {
  Tensor counts;            // [batch, E] i32: how often each sequence has chosen each expert, in `layers` layers together
  std::int64_t layers = 1;  // the number of layers that counts are of
  float balance_scale = 0;  // factor of the balancing loss's gradient
  float z_scale = 0;        // factor of the z-loss's gradient
};

struct RouteBackwardArgs {
  Routing routing;  // the forward's
  bool normalised = false;
  Tensor dweights;  // [R] f32
  std::optional<RouterLosses> losses = {};
  Tensor dlogits;  // [T, E] f32, output
  // [E + 2] f64 +=, wanted if it has memory: the rows of each expert; the sums over sequences of the layer's share of the
  // balancing loss and of its z-loss.
  Tensor statistics = {};
};

struct CountExpertsArgs {
  Tensor experts;  // [T, C] i32
  Tensor counts;   // [batch, E] i32 +=: by sequence, how often each expert was chosen
};

struct GatherRowsArgs {
  Tensor x;       // [T, H]
  Tensor tokens;  // [R] i32
  Tensor rows;    // [R, H], output
};

struct SumRowsArgs {
  TensorParallel tp = {};
  Tensor rows;                          // [R, H]
  Tensor places;                        // [T, C] i32
  std::optional<Tensor> addend = {};    // [T, H], added on each rank before the ranks' sum
  std::optional<Tensor> residual = {};  // [Tr, H], added before the one rounding; may be out's memory
  Tensor out;                           // [Tr, H], output
};

struct WeighRowsArgs {
  Tensor x;        // [R, I]
  Tensor weights;  // [R] f32
  Tensor y;        // [R, I], output; may be x's memory
};

struct WeighRowsBackwardArgs {
  TensorParallel tp = {};
  Tensor dy;        // [R, I]
  Tensor x;         // [R, I], the forward's: this rank's columns
  Tensor weights;   // [R] f32
  Tensor dx;        // [R, I], output; may be dy's memory
  Tensor dweights;  // [R] f32, output: summed over the ranks
};

struct GroupedMatmulArgs {
  MatmulKind kind;
  Tensor in;       // [R, ...]
  Tensor w;        // [E N, K]: the experts' matrices one below the other
  Tensor offsets;  // [E + 1] i32
  Tensor out;      // [R, ...], output
};

struct GroupedWeightGradArgs {
  Tensor dy;       // [R, N]
  Tensor x;        // [R, K]
  Tensor offsets;  // [E + 1] i32
  Tensor dw;       // [E N, K] f32
  Accumulate accumulate = Accumulate::yes;
};

}  // namespace pipetrain
