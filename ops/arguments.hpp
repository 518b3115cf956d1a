// The arguments of the operations, by name, because most tensors have the same type and could be swapped
// unnoticed. Shapes and their letters as in ops/ops.hpp. An operation's inputs stand before its outputs, unless
// a field says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor.hpp"
#include "ops/accumulate.hpp"
#include "ops/dropout.hpp"
#include "ops/expert_arguments.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/preference.hpp"
#include "ops/quantised_matrix.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

// This rank's rows of the vocabulary.
struct VocabularyRows {
  std::int64_t first = 0, count = 0;
};

// --- Matrices ---

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

// --- Products of matrices in 8 bits ---

struct QuantiseArgs {
  Tensor x;       // [M, N] bf16
  Fp8Matrix out;  // output
  // For Fp8Scales::tensor: out.scale already ends with x's largest magnitude, so that it is not searched for.
  bool measured = false;
};

struct Fp8MatmulArgs {
  TensorParallel tp = {};             // the ranks over which products are summed
  Fp8Operand a;                       // [M, K]; with scales of tiles M is a multiple of 4
  Fp8Operand b;                       // [N, K] e4m3; must not have scales of blocks if a has
  std::optional<Tensor> addend = {};  // as out, added before the one rounding to out's dtype; may be out's memory
  Tensor out;                         // [M, N] bf16 or f32, output; this rank's rows of the sum if there are several ranks
};

// --- Frozen matrices in fewer bits ---

struct DequantiseArgs {
  QuantisedMatrix matrix;
  Tensor out;  // as many elements as the slice, in its order; f32, bf16 or f16, output
};

// --- Embedding ---

struct EmbeddingArgs {
  TensorParallel tp = {};
  Tensor ids;             // [T] i32
  Tensor table;           // [V, H]
  std::int64_t first_id;  // the table's first row
  Tensor out;             // [Tr, H], output
};

struct EmbeddingGradArgs {
  Tensor ids;             // [T] i32
  Tensor dy;              // [T, H]
  std::int64_t first_id;  // the table's first row
  Tensor dtable;          // [V, H] f32 +=
};

// --- Norms and activations ---

// `largest` [1] f32, if given, receives the largest magnitude of the rounded result; NaN if an element is NaN.
// On GPUs in bf16 only.

// The activation of a gated MLP's gate.
enum class GateKind { silu, gelu, clamped };  // gelu in its tanh form

// With GateKind::clamped: y = (u + 1) g sigmoid(alpha g), where g = min(gate, limit), and u is `up` between
// -limit and limit.
struct GateClamps {
  float alpha = 1, limit = 0;
};

struct SwigluArgs {
  Tensor gate_up;                      // [T, 2I]
  Tensor y;                            // [T, I], output
  std::optional<Tensor> largest = {};  // of y
  GateKind gate = GateKind::silu;
  Tensor used = {};  // [1] i32: see ops/expert_arguments.hpp; without a shape: all rows
  GateClamps clamps = {};
};

struct SwigluBackwardArgs {
  Tensor dy;                           // [T, I]
  Tensor gate_up;                      // [T, 2I], the forward's
  Tensor dgate_up;                     // [T, 2I], output; may be gate_up's memory
  std::optional<Tensor> largest = {};  // of dgate_up
  GateKind gate = GateKind::silu;
  Tensor used = {};  // as in SwigluArgs
  GateClamps clamps = {};
};

struct RmsNormArgs {
  Tensor x;       // [Tr, H]
  Tensor weight;  // [H]
  float eps;
  Tensor y;                             // [Tr, H], output
  Tensor inv_rms;                       // [Tr] f32, output
  std::optional<Tensor> largest = {};   // of y
  float offset = 0;                     // added to the weight
  std::optional<Tensor> residual = {};  // [Tr, H], added to y before the one rounding; may be y's memory
};

struct RmsNormBackwardArgs {
  Tensor dy;                            // [Tr, H]
  Tensor x;                             // [Tr, H], the forward's
  Tensor weight;                        // [H]
  Tensor inv_rms;                       // [Tr] f32, the forward's
  std::optional<Tensor> residual = {};  // [Tr, H], added to dx before the one rounding
  Tensor dx;                            // [Tr, H], output; may be x's memory
  Tensor dweight;                       // [H] f32 +=
  float offset = 0;                     // the forward's
};

// An RMSNorm whose rows several ranks hold in parts: each rank adds up its columns, the ranks' sums are added, and each rank
// norms its own columns.

struct RowDotsArgs {
  Tensor a;                           // [R, N]
  Tensor b;                           // [R, N]
  std::optional<Tensor> weight = {};  // [N]
  Tensor sums;                        // [R] f32, output
};

struct SplitNormArgs {
  Tensor x;              // [R, N], this rank's columns
  Tensor weight;         // [N]
  Tensor square_sums;    // [R] f32, over the columns of all ranks
  std::int64_t columns;  // of all ranks
  float eps;
  Tensor y;        // [R, N], output
  Tensor inv_rms;  // [R] f32, output
};

struct SplitNormBackwardArgs {
  Tensor dy;             // [R, N]
  Tensor x;              // [R, N], the forward's
  Tensor weight;         // [N]
  Tensor inv_rms;        // [R] f32, the forward's
  Tensor dots;           // [R] f32, row_dots of dy, x and the weight over the columns of all ranks
  std::int64_t columns;  // of all ranks
  Tensor dx;             // [R, N], output; may be x's memory
  Tensor dweight;        // [N] f32 +=
};

struct LayerNormArgs {
  Tensor x;       // [Tr, H]
  Tensor weight;  // [H]
  Tensor bias;    // [H]
  float eps;
  Tensor y;                            // [Tr, H], output
  Tensor mean;                         // [Tr] f32, output
  Tensor inv_std;                      // [Tr] f32, output
  std::optional<Tensor> largest = {};  // of y
};

struct LayerNormBackwardArgs {
  Tensor dy;                                 // [Tr, H]
  Tensor x;                                  // [Tr, H], the forward's
  Tensor weight;                             // [H]
  Tensor mean;                               // [Tr] f32, the forward's
  Tensor inv_std;                            // [Tr] f32, the forward's
  std::optional<Tensor> residual = {};       // [Tr, H], added to dx before the one rounding
  Tensor dx;                                 // [Tr, H], output; may be x's memory
  Tensor dweight;                            // [H] f32 +=
  Tensor dbias;                              // [H] f32 +=
  std::optional<Tensor> residual_sums = {};  // [H] f32 += column sums of residual
};

struct GeluArgs {
  Tensor x;     // [T, I], the matrix's output without bias
  Tensor bias;  // [I]
  Tensor y;     // [T, I], output
};

struct GeluBackwardArgs {
  Tensor dy;     // [T, I]
  Tensor x;      // [T, I], the matrix's output without bias
  Tensor bias;   // [I]
  Tensor dx;     // [T, I], output; may be x's memory
  Tensor dbias;  // [I] f32 += column sums of dx
};

struct ScaleArgs {
  Tensor x;    // [Tr, H]
  Tensor out;  // [Tr, H], output; may be x's memory
  float factor = 1;
  // On CPUs only:
  bool exact = false;                   // the factor is not rounded to x's type
  std::optional<Tensor> residual = {};  // [Tr, H], added before the one rounding
};

// On CPUs only.
struct SigmoidArgs {
  Tensor x;  // [N] f32
  Tensor y;  // [N] f32, output; may be x's memory
};

struct SigmoidBackwardArgs {
  Tensor dy;  // [N] f32
  Tensor y;   // [N] f32, the forward's
  Tensor dx;  // [N] f32, output; may be dy's memory
};

struct AddBiasArgs {
  Tensor x;     // [T, N] +=
  Tensor bias;  // [N]
};

struct BiasGradArgs {
  Tensor dy;     // [T, N]
  Tensor dbias;  // [N] f32 +=
};

struct DropoutArgs {
  Tensor x;                             // [Tr, H], tokens first_token, first_token + 1, ... of the microbatch
  std::optional<Tensor> residual = {};  // [Tr, H], added before the one rounding; may be out's memory
  Tensor out;                           // [Tr, H], output; may be x's memory
  std::int64_t first_token = 0, sequence = 1;
  Dropout dropout;                // must be active
  std::int64_t first_column = 0;  // of x's columns, counted in the logical tensor
};

// --- Positions ---

// If several documents share a sequence and must not attend to each other, `documents` [T] i32 holds for each
// token the position in its sequence (0 to sequence - 1) of its document's first token. Positions count from
// there. Absent: a sequence is one document.

struct RotaryArgs {
  Tensor qkv;      // [T, (Hq + 2 Hkv) D], in place
  Tensor cos_sin;  // [sequence, 2, R/2] f32, cosines then sines: the first R columns of each head rotate, R at most D
  std::optional<Tensor> documents = {};
  bool inverse = false;  // rotates back, as the backward does
};

// The norm that all query heads share, or that all key heads share, and what its backward reads.
struct HeadNorm {
  Tensor weight;   // [D]
  Tensor input;    // [T, heads D], the heads before the norm: written by the forward, overwritten by the backward
  Tensor inv_rms;  // [T heads] f32, written by the forward
};

struct HeadNormsArgs {
  Tensor qkv;              // [T, (Hq + 2 Hkv) D], in place: query and key heads
  HeadNorm queries, keys;  // their input and inv_rms are outputs
  float eps;
  float offset = 0;  // added to the weights
  // As in RotaryArgs. If given, the normed heads also rotate.
  std::optional<Tensor> cos_sin = {};
  std::optional<Tensor> documents = {};
};

struct HeadNormsBackwardArgs {
  Tensor dqkv;                        // [T, (Hq + 2 Hkv) D], in place: the gradient of the normed query and key heads
  HeadNorm queries, keys;             // the forward's
  Tensor dquery_weight, dkey_weight;  // [D] f32 +=
  float offset = 0;                   // the forward's
};

struct AddPositionsArgs {
  std::int64_t first_token = 0, sequence = 1;  // x holds tokens first_token, first_token + 1, ... of the microbatch
  Tensor table;                                // [at least sequence, H]
  Tensor x;                                    // [Tr, H] +=
  std::optional<Tensor> documents = {};
};

struct PositionsGradArgs {
  std::int64_t first_token = 0, sequence = 1;
  Tensor dy;      // [Tr, H]
  Tensor dtable;  // [at least sequence, H] f32 +=
  std::optional<Tensor> documents = {};
};

// --- Attention ---

// Queries, keys and values may be columns of one packed matrix: q reads the first Hq D columns of each row and
// kv the last 2 Hkv D ones, all key heads, then all value heads. Only the first `keys` of a sequence's R rows
// of kv are read, R >= keys.

struct AttentionArgs {
  Tensor q;                              // [batch queries, Hq D], or more columns
  Tensor kv;                             // [batch R, 2 Hkv D], or more columns
  Tensor out;                            // [batch queries, Hq D], output; f32 or the activations' type
  Tensor log_sum_exp;                    // [batch, Hq, queries] f32, output: from the scores before dropout
  std::optional<Tensor> documents = {};  // [batch queries] i32: the first position of each query's document
  Dropout dropout = {};  // drops probabilities; draws by position, so that segments draw what the whole attention draws
};

// The gradients use the columns of q and kv; other columns keep their values. dq and dkv have the activations' type or are
// f32. Sums of several segments should be f32, and be rounded once the sum is complete. dq is f32 only if dkv is.
struct AttentionBackwardArgs {
  Tensor dout;                                 // [batch queries, Hq D]
  Tensor q;                                    // the forward's
  Tensor kv;                                   // the forward's
  Tensor out;                                  // [batch queries, Hq D], the forward's output over all segments, in its type
  Tensor log_sum_exp;                          // [batch, Hq, queries] f32, the forward's over all segments
  Tensor dq;                                   // [batch queries, Hq D], or more columns
  Tensor dkv;                                  // [batch R, 2 Hkv D], or more columns; any R >= keys
  Accumulate accumulate_dq = Accumulate::no;   // f32 only
  Accumulate accumulate_dkv = Accumulate::no;  // f32 only
  std::optional<Tensor> documents = {};        // the forward's
  Dropout dropout = {};                        // the forward's
  // The angles of the rotation that produced whole sequences' packed qkv, with the same documents. If given, dq
  // and dkv are one packed matrix and receive the gradient of the unrotated qkv.
  std::optional<Tensor> cos_sin = {};
};

// The cache holds the keys and values of a sequence, one row for each position: all key heads, then all value heads.
struct CachedAttentionArgs {
  Tensor qkv;               // [T, (Hq + 2 Hkv) D], for the positions from shape.first_query on
  Tensor cache;             // [positions, 2 Hkv D]: rows below shape.first_query are read, the T rows from it on are written
  Tensor out;               // [T, Hq D], output
  Tensor log_sum_exp = {};  // [1, Hq, T] f32, output; without a shape: not wanted
};

// A logit of each head, which adds to the denominator of the softmax of all its queries, and has no value (OpenAI 2025,
// "gpt-oss-120b & gpt-oss-20b Model Card", section 2.3). B may be a multiple of the batch, where the queries of a
// sequence are divided into runs.
struct SinksArgs {
  Tensor logits;       // [Hq]
  Tensor out;          // [B queries, Hq V], in place: the attention's output without the sinks, then with them
  Tensor log_sum_exp;  // [B, Hq, queries] f32, in place
};

struct SinksBackwardArgs {
  Tensor logits;       // [Hq]
  Tensor dout, out;    // [B queries, Hq V]: the output with the sinks, and its gradient
  Tensor log_sum_exp;  // [B, Hq, queries] f32, with the sinks
  Tensor dlogits;      // [Hq] f32 +=
};

// The queries, keys and values of a latent attention (DeepSeek-AI 2024, "DeepSeek-V2"), with as many key heads as query heads.
// A head's queries and keys have P columns that stay, then R columns that rotate, P + R = D; values have V columns.
struct LatentHeadsArgs {
  Tensor q;                  // [T, Hq D]
  Tensor key_value;          // [T, Hq (P + V)]: of each head, the first columns of its keys, then its values
  Tensor rotated;            // [T, R]: the last columns of the keys of all heads
  Tensor cos_sin;            // [sequence, 2, R/2] f32, as in RotaryArgs
  bool interleaved = false;  // columns (2i, 2i + 1) rotate together, instead of columns (i, i + R/2)
  std::optional<Tensor> documents = {};
  Tensor qkv;  // [T, Hq (2 D + V)], output: rotated, as attention reads it
};

struct LatentHeadsBackwardArgs {
  Tensor dqkv;
  Tensor cos_sin;
  bool interleaved = false;
  std::optional<Tensor> documents = {};
  Tensor dq, dkey_value;  // as the forward's, output
  Tensor drotated;        // [T, R] f32, output: summed over this rank's heads
};

// As CachedAttentionArgs, for latent attention: the cache has the K numbers of a position's latent vector, then its R rotated
// columns.
struct CachedLatentAttentionArgs {
  Tensor q;        // [T, Hq D], not rotated yet
  Tensor latent;   // [T, K]: of the positions from shape.first_query on
  Tensor rotated;  // [T, R], not rotated yet
  Tensor expand;   // [Hq (P + V), K]: the matrix whose product with `latent` is LatentHeadsArgs::key_value
  Tensor cos_sin;  // [T, 2, R/2] f32: of these positions
  bool interleaved = false;
  Tensor cache;  // [positions, K + R]: rows below shape.first_query are read, the T rows from it on are written
  Tensor out;    // [T, Hq V], output
};

struct MergeAttentionArgs {
  Tensor part;              // [batch queries, Hq D], f32 or the activations' type
  Tensor part_log_sum_exp;  // [batch, Hq, queries] f32
  Tensor out;               // [batch queries, Hq D], in place; f32, so that merges do not round
  Tensor log_sum_exp;       // [batch, Hq, queries] f32, in place
};

// --- Columns ---

struct CopyColumnsArgs {
  Tensor source;                  // [R, ...], of target's type, or one of the two is f32; must not overlap target
  std::int64_t source_begin = 0;  // the first of source's columns to copy
  Tensor target;                  // [R, ...]; columns [target_begin, target_begin + count) are written
  std::int64_t target_begin = 0, count = 0;
};

// --- Loss ---

struct CrossEntropyBackwardArgs {
  Tensor logits;   // [T, V] or more columns, in place
  Tensor targets;  // [T] i32; negative: not counted
  VocabularyRows vocabulary;
  Tensor log_sum_exp;  // [T] f32, the forward's
  float scale;
  std::optional<Tensor> token_scales = {};  // [T] f32: a further factor for each token
};

struct CrossEntropyArgs {
  TensorParallel tp = {};
  Tensor logits;              // [T, V] for this rank's rows of the vocabulary; further columns do not count
  Tensor targets;             // [T] i32; negative: not counted
  VocabularyRows vocabulary;  // this rank's
  Tensor log_sum_exp;         // [T] f32, output: over the whole vocabulary
  Tensor loss_sum;            // [1] f64, output
  // If given, the logits are overwritten with their gradient, as cross_entropy_backward computes it with this scale.
  std::optional<float> gradient_scale = {};
  std::optional<Tensor> token_losses = {};  // [T] f32, output: the terms of the sum, 0 for tokens that are not counted

  CrossEntropyBackwardArgs backward() const { return {logits, targets, vocabulary, log_sum_exp, gradient_scale.value()}; }
};

// Sequences are ranges of equal length. Targets of at least 0 count in a sequence's completion, and context labels
// (core/labels/context_label.hpp) in its context.
struct ContextTargetsArgs {
  Tensor targets;  // [T] i32
  Tensor out;      // [T] i32, output
};

struct SequenceSumsArgs {
  Tensor token_losses;  // [T] f32
  Tensor targets;       // [T] i32
  Tensor sums;          // [batch, 2] f64, output: of the completion, of the context
};

struct PreferenceScalesArgs {
  PreferenceFormula formula;
  Tensor sums;     // [batch, 2] f64: of whole sequences
  Tensor facts;    // [batch, preference_facts] f64: SequenceFacts
  Tensor targets;  // [T] i32
  Tensor scales;   // [T] f32, output
};

struct CountedRowsArgs {
  Tensor logits;   // [T, C] or more columns
  Tensor targets;  // [T] i32
  Tensor rows;     // [batch, C] f64, output
};

// --- Flat arenas ---

struct CopyArgs {
  Tensor source;
  Tensor target;  // equally many bytes; must not overlap source
};

struct ZeroArgs {
  Tensor tensor;
};

struct RoundArgs {
  Tensor source;  // f32
  Tensor target;  // [same length] bf16, f16 or f32, output
};

struct SquareSumArgs {
  Tensor tensor;  // f32
  Tensor sum;     // [1] f64, output
};

struct SquareSumEachArgs {
  std::span<const SquareSumArgs> sums;  // their tensors must have elements
};

struct SquareSumsArgs {
  Tensor tensor;  // f32
  Tensor sums;    // [elements / 65,536, rounded up] f64, output
};

struct AddArgs {
  Tensor target;  // f32 or f64, on CPUs also i32, +=
  Tensor source;
};

}  // namespace pipetrain
