// The arguments of the operations of routed blocks, in which every token passes through a few of many experts (Shazeer et al.
// 2017, "Outrageously Large Neural Networks").
//
// E is the number of experts, C the number that each token chooses, and R = T C the number of rows: one for each token and
// chosen expert, sorted by expert, the rows of one expert by token. Other letters as in ops/ops.hpp.
//
// Only the device knows how many rows there are where choices are dropped, or where ranks send each other rows. Tensors then
// have the most rows that there may be, and `used` says how many of them, the first, hold values. The others are neither read
// nor written.
#pragma once

#include <cstdint>
#include <optional>

#include "core/process_group.hpp"
#include "core/tensor.hpp"
#include "ops/accumulate.hpp"
#include "ops/arguments/activations.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

// The experts of each token, and the order of the rows.
struct Routing {
  Tensor probabilities;  // [T, E] f32: softmax of the logits, or other scores (ScoreRule)
  Tensor log_sum_exp;    // [T] f32: of the logits
  Tensor experts;        // [T, C] i32: those chosen, in ascending order
  Tensor places;         // [T, C] i32: the row of each of them; -1 for a dropped choice
  Tensor tokens;         // [R] i32: the token of each row
  Tensor weights;        // [R] f32: the factor of each row's output
  Tensor offsets;        // [E + 1] i32: the first row of each expert, then the number of rows
};

// Drops choices of experts that too many tokens of a sequence have chosen.
struct ExpertCapacity {
  std::int64_t batch = 1;  // the tokens are divided into so many sequences of equal length
  // The most tokens of one sequence that an expert takes: the first ones, by position. 0: all of them.
  std::int64_t tokens = 0;
};

// How scores follow from logits, and weights from the scores of the experts that are chosen. GPUs take at
// most 32 groups.
struct ScoreRule {
  bool sigmoid = false;  // the score of a logit is its sigmoid, and `probabilities` has it; otherwise its share of the softmax
  // The experts are divided into this many groups of neighbours, and only those of the `chosen_groups` with the highest scores
  // (of equal ones, the lowest) are chosen from. A group's score is the largest of its experts', or the sum of the two largest.
  std::int64_t groups = 1, chosen_groups = 1;
  bool pairs = false;
  float scale = 1;  // the weights are multiplied by it, at last
};

struct RouteArgs {
  Tensor logits;            // [T, E] f32
  bool normalised = false;  // the weights of a token's experts are divided by their sum
  ScoreRule rule = {};
  Tensor bias = {};        // [E] f32, added to the scores for the choice alone; without a shape: none
  Tensor correction = {};  // as bias
  ExpertCapacity capacity = {};
  Routing routing;  // output
};

// The rows of counts to which tokens belong: one row for each sequence. With isolated documents a document is a sequence, and
// its counts are in the row of its first token, so that there are as many rows as tokens of whole samples. Only on CPUs.
struct CountedSequences {
  std::int64_t batch = 1;
  Tensor documents = {};  // [T] i32: see ForwardArgs::documents; without memory: a sample is one sequence
};

// The losses that keep the experts' loads even, for one layer.
struct RouterLosses {
  // [batch, E] i32, or with documents a row for each token: how often each sequence has chosen each expert, in `layers` layers
  // together.
  Tensor counts;
  CountedSequences sequences = {};
  std::int64_t layers = 1;  // the number of layers that counts are of
  float balance_scale = 0;  // factor of the balancing loss's gradient
  float z_scale = 0;        // factor of the z-loss's gradient
};

struct RouteBackwardArgs {
  Routing routing;  // the forward's
  bool normalised = false;
  ScoreRule rule = {};
  Tensor dweights;  // [R] f32
  std::optional<RouterLosses> losses = {};
  Tensor dlogits;  // [T, E] f32, output
  // [E + 3] f64 +=, wanted if it has memory: how often each expert was chosen; the sums over sequences of the layer's share of
  // the balancing loss and of its z-loss; the number of dropped choices.
  Tensor statistics = {};
};

struct CountExpertsArgs {
  Tensor experts;  // [T, C] i32
  Tensor counts;   // [batch, E] i32, or with documents a row for each token, +=: how often each sequence chose each expert
  CountedSequences sequences = {};
};

struct GatherRowsArgs {
  Tensor x;          // [T, H]
  Tensor tokens;     // [R] i32
  Tensor rows;       // [R, H], output
  Tensor used = {};  // [1] i32: the number of rows; without a shape: all
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
  Tensor x;          // [R, I]
  Tensor weights;    // [R] f32
  Tensor y;          // [R, I], output; may be x's memory
  Tensor used = {};  // [1] i32: the number of rows; without a shape: all
};

// The backward of swiglu() with weights: dweights = for each row the sum over the columns of dy times the forward's result
// without weights. The bits of dgate_up are those of swiglu_backward() after weigh_rows() of dy.
struct WeighedSwigluBackwardArgs {
  TensorParallel tp = {};
  Tensor dy;                           // [R, I], of the weighed rows: this rank's columns
  Tensor gate_up;                      // [R, 2I], the forward's
  Tensor weights;                      // [R] f32
  Tensor dgate_up;                     // [R, 2I], output; may be gate_up's memory
  Tensor dweights;                     // [R] f32, output: summed over the ranks
  Tensor addend = {};                  // [R] f32: each rank adds its own to dweights before that sum; without a shape: none
  std::optional<Tensor> largest = {};  // of dgate_up
  GateKind gate = GateKind::silu;
  Tensor used = {};  // [1] i32: the number of rows; without a shape: all
  GateClamps clamps = {};
};

// The biases of the experts' matrices. Columns [first_column, first_column + n) of the rows have the biases.
struct ExpertBiasArgs {
  Tensor x;             // [R, N] +=
  Tensor bias;          // [E n]
  Tensor offsets;       // [E + 1] i32
  Tensor weights = {};  // [R] f32: a factor of each row's bias; without a shape: 1
  std::int64_t first_column = 0;
};

struct ExpertBiasBackwardArgs {
  Tensor dy;            // [R, N]
  Tensor bias;          // [E n]
  Tensor offsets;       // [E + 1] i32
  Tensor weights = {};  // [R] f32, the forward's
  std::int64_t first_column = 0;
  Tensor dbias;      // [E n] f32 +=
  Tensor dots = {};  // [R] f32, output: the product of each row of dy with its bias; without a shape: not wanted
};

// Biases that a grouped product adds to its rows: see ExpertBiasArgs.
struct GroupedBias {
  Tensor bias;
  Tensor weights = {};
  std::int64_t first_column = 0;
};

struct GroupedMatmulArgs {
  MatmulKind kind;
  Tensor in;                             // [R, ...]
  Tensor w;                              // [E N, K]: the experts' matrices one below the other
  Tensor offsets;                        // [E + 1] i32
  Tensor out;                            // [R, ...], output
  std::optional<GroupedBias> bias = {};  // in a forward alone

  // Returns the addition of the bias as an operation of its own.
  ExpertBiasArgs bias_args() const {
    return {.x = out, .bias = bias->bias, .offsets = offsets, .weights = bias->weights, .first_column = bias->first_column};
  }
};

// Both operands have one scale, that of the matrices being one for all experts.
struct GroupedFp8MatmulArgs {
  MatmulKind kind;
  Fp8Operand in;   // [R, K] or the gradient [R, N], e4m3 or e5m2
  Fp8Operand w;    // e4m3, of the matrices [E N, K] as Fp8Matrix: in a forward its rows, for an input gradient its cols
  Tensor offsets;  // [E + 1] i32
  Tensor out;      // [R, ...] bf16, output
  std::optional<GroupedBias> bias = {};  // in a forward alone

  ExpertBiasArgs bias_args() const {
    return {.x = out, .bias = bias->bias, .offsets = offsets, .weights = bias->weights, .first_column = bias->first_column};
  }
};

struct GroupedWeightGradArgs {
  Tensor dy;       // [R, N]
  Tensor x;        // [R, K]
  Tensor offsets;  // [E + 1] i32
  Tensor dw;       // [E N, K] f32
  Accumulate accumulate = Accumulate::yes;
};

// --- Expert parallelism: the ranks of a group hold E / ranks neighbouring experts each ---
//
// A token is sent once to each rank that holds one of its experts. S = T min(C, ranks) is the most tokens that a rank sends,
// counted once for each rank that gets them; N = T ranks is the most that it receives.

// The tokens that a rank sends: sorted by receiver, then by token.
struct SentTokens {
  Tensor tokens;  // [S] i32: the token of each
  // [S, C] i32: those of its experts that the receiver holds, counted from its first one, ascending; then -1
  Tensor experts = {};
  Tensor weights = {};  // [S, C] f32: their weights
  Tensor offsets = {};  // [ranks + 1] i32: the first token for each rank, then the number of tokens
  // [T, C] i32: the row of each of a token's choices among those that come back, which are sorted by rank, token and expert;
  // -1 for a dropped choice.
  Tensor places;
};

struct SendTokensArgs {
  Routing routing;  // of the rank's own tokens
  SentTokens sent;  // output
};

// The rows that a rank computes for all ranks, sorted by expert, source rank and token. R = N min(C, E / ranks).
struct ReceivedRows {
  Tensor tokens;   // [R] i32: the received token of each row
  Tensor weights;  // [R] f32
  Tensor offsets;  // [E / ranks + 1] i32: the first row of each of its experts, then the number of rows
  // [R] i32: the rows in the order in which they go back: by source rank, then by token and expert.
  Tensor returned;
  Tensor return_offsets;  // [ranks + 1] i32: the first place in `returned` for each rank, then the number of rows
};

struct SortReceivedArgs {
  Tensor experts;     // [N, C] i32, as in SentTokens
  Tensor weights;     // [N, C] f32
  Tensor offsets;     // [ranks + 1] i32: the first token from each rank, then their number
  ReceivedRows rows;  // output
};

// See Group::all_to_all.
struct ExchangeRowsArgs {
  Group* group;  // null while memory is measured
  RowExchange exchange;
};

}  // namespace pipetrain
