// The tensors of an operation, by name: most have the same type and could be exchanged in silence. Shapes and their letters as
// in ops/ops.hpp; what an operation reads stands before what it writes or adds to, but where a field says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor.hpp"
#include "ops/dropout.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

// What a product does with the gradient that is there.
enum class Accumulate {
  no,   // writes over it, whatever it holds, NaN included; the bits are those of adding to zeros, but for a zero's sign
  yes,  // adds to it
};

// The rows of the vocabulary that this rank has.
struct VocabularyRows {
  std::int64_t first = 0, count = 0;
};

// --- Matrices ---

struct GatherMatmulArgs {
  TensorParallel tp = {};
  MatmulKind kind;
  Tensor shard;  // [Tr, in], this rank's rows
  Tensor w;      // [N, K]
  Tensor full;  // [T, in], written: all ranks' shards; left as it is, and may be shard's memory, when nothing is to be gathered
  Tensor out;   // [T, ...], written: full x w
  std::optional<Tensor> bias = {};  // [out's columns], added to each row
};

struct MatmulScatterArgs {
  TensorParallel tp = {};
  MatmulKind kind;
  Tensor in;                            // [T, ...]
  Tensor w;                             // [N, K]
  std::optional<Tensor> residual = {};  // [Tr, ...], added before the one rounding to out's dtype; may be out's memory
  Tensor out;                           // [Tr, ...], written
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
  Tensor dx;                                // [Tr, K], written
  Tensor x;                                 // [T, K]
  Tensor dw;                                // [N, K] f32
  Accumulate accumulate = Accumulate::yes;  // of dw

  // The two operations that it consists of.
  WeightGradArgs weight_grad() const { return {.dy = dy, .x = x, .dw = dw, .accumulate = accumulate}; }
  MatmulScatterArgs matmul_scatter() const { return {.tp = tp, .kind = MatmulKind::input_grad, .in = dy, .w = w, .out = dx}; }
};

// One rank's rows of a matrix, and all rows of it.
struct GatherArgs {
  TensorParallel tp = {};
  Tensor shard;  // [Tr, ...]
  Tensor full;   // [T, ...], written
};

struct ScatterSumArgs {
  TensorParallel tp = {};
  Tensor full;  // [T, ...]
  Tensor out;   // [Tr, ...], written
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
  Tensor x;               // [M, N] bf16
  Fp8Matrix out;          // written
  bool measured = false;  // of tensor: out.scale already ends with x's largest magnitude: it is read and not searched for
};

struct Fp8MatmulArgs {
  TensorParallel tp = {};             // the ranks whose products are summed
  Fp8Operand a;                       // [M, K]; of tiles M is a multiple of 4
  Fp8Operand b;                       // [N, K] e4m3; not of blocks where a is
  std::optional<Tensor> addend = {};  // as out, added before the one rounding to out's dtype; may be out's memory
  Tensor out;                         // [M, N] bf16 or f32, written; of several ranks' sum this rank's rows
};

// --- Embedding ---

struct EmbeddingArgs {
  TensorParallel tp = {};
  Tensor ids;             // [T] i32
  Tensor table;           // [V, H]
  std::int64_t first_id;  // the table's first row
  Tensor out;             // [Tr, H], written
};

struct EmbeddingGradArgs {
  Tensor ids;             // [T] i32
  Tensor dy;              // [T, H]
  std::int64_t first_id;  // the table's first row
  Tensor dtable;          // [V, H] f32 +=
};

// --- Norms and activations ---

// `largest` [1] f32, where it is given, is written: the largest magnitude of the result as it was rounded; NaN if one of it is.
// On GPUs in bf16 only.

struct SwigluArgs {
  Tensor gate_up;                      // [T, 2I]
  Tensor y;                            // [T, I], written
  std::optional<Tensor> largest = {};  // of y
};

struct SwigluBackwardArgs {
  Tensor dy;                           // [T, I]
  Tensor gate_up;                      // [T, 2I], of the forward
  Tensor dgate_up;                     // [T, 2I], written; may be gate_up's memory
  std::optional<Tensor> largest = {};  // of dgate_up
};

struct RmsNormArgs {
  Tensor x;       // [Tr, H]
  Tensor weight;  // [H]
  float eps;
  Tensor y;                            // [Tr, H], written
  Tensor inv_rms;                      // [Tr] f32, written
  std::optional<Tensor> largest = {};  // of y
};

struct RmsNormBackwardArgs {
  Tensor dy;                            // [Tr, H]
  Tensor x;                             // [Tr, H], of the forward
  Tensor weight;                        // [H]
  Tensor inv_rms;                       // [Tr] f32, of the forward
  std::optional<Tensor> residual = {};  // [Tr, H], added to dx before the one rounding
  Tensor dx;                            // [Tr, H], written; may be x's memory
  Tensor dweight;                       // [H] f32 +=
};

struct LayerNormArgs {
  Tensor x;       // [Tr, H]
  Tensor weight;  // [H]
  Tensor bias;    // [H]
  float eps;
  Tensor y;                            // [Tr, H], written
  Tensor mean;                         // [Tr] f32, written
  Tensor inv_std;                      // [Tr] f32, written
  std::optional<Tensor> largest = {};  // of y
};

struct LayerNormBackwardArgs {
  Tensor dy;                                 // [Tr, H]
  Tensor x;                                  // [Tr, H], of the forward
  Tensor weight;                             // [H]
  Tensor mean;                               // [Tr] f32, of the forward
  Tensor inv_std;                            // [Tr] f32, of the forward
  std::optional<Tensor> residual = {};       // [Tr, H], added to dx before the one rounding
  Tensor dx;                                 // [Tr, H], written; may be x's memory
  Tensor dweight;                            // [H] f32 +=
  Tensor dbias;                              // [H] f32 +=
  std::optional<Tensor> residual_sums = {};  // [H] f32 += residual's columns' sums
};

struct GeluArgs {
  Tensor x;     // [T, I], as the matrix left it
  Tensor bias;  // [I]
  Tensor y;     // [T, I], written
};

struct GeluBackwardArgs {
  Tensor dy;     // [T, I]
  Tensor x;      // [T, I], as the matrix left it
  Tensor bias;   // [I]
  Tensor dx;     // [T, I], written; may be x's memory
  Tensor dbias;  // [I] f32 += dx's columns' sums
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
  Tensor out;                           // [Tr, H], written; may be x's memory
  std::int64_t first_token = 0, sequence = 1;
  Dropout dropout;  // active
};

// --- Positions ---

// Where several documents share a sequence and are not to see each other, `documents` [T] i32 says of each token which token of
// its sequence (0 to sequence - 1) its document begins with. Positions count from there. Absent: a sequence is one document.

struct RotaryArgs {
  Tensor qkv;      // [T, (Hq + 2 Hkv) D], in place
  Tensor cos_sin;  // [sequence, 2, R/2] f32, cosines then sines: the first R columns of each head rotate, R at most D
  std::optional<Tensor> documents = {};
  bool inverse = false;  // rotates back, which is the backward
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

// Queries, keys and values may be columns of one packed matrix: of each row q reads the first Hq D columns and kv the last
// 2 Hkv D ones, all key heads, then all value heads. Of a sequence's R rows of kv the first `keys` are read, R >= keys.

struct AttentionArgs {
  Tensor q;                              // [batch queries, Hq D], or more columns
  Tensor kv;                             // [batch R, 2 Hkv D], or more columns
  Tensor out;                            // [batch queries, Hq D], written; f32 or the activations' type
  Tensor log_sum_exp;                    // [batch, Hq, queries] f32, written: of the scores, before anything is dropped
  std::optional<Tensor> documents = {};  // [batch queries] i32: where each query's document begins in the sequence
  Dropout dropout = {};                  // of the probabilities; draws by position, so that the whole attention draws the same
};

// The gradients' columns lie as those of q and kv; further ones stay. dq and dkv are of the activations' type, or they are f32:
// sums of several segments should be, and be rounded once all is there. dq is f32 only where dkv is.
struct AttentionBackwardArgs {
  Tensor dout;                                 // [batch queries, Hq D]
  Tensor q;                                    // of the forward
  Tensor kv;                                   // of the forward
  Tensor out;                                  // [batch queries, Hq D] of all the segments' forward together, in its type
  Tensor log_sum_exp;                          // [batch, Hq, queries] f32, of all the segments' forward together
  Tensor dq;                                   // [batch queries, Hq D], or more columns
  Tensor dkv;                                  // [batch R, 2 Hkv D], or more columns; any R >= keys
  Accumulate accumulate_dq = Accumulate::no;   // f32 only
  Accumulate accumulate_dkv = Accumulate::no;  // f32 only
  std::optional<Tensor> documents = {};        // of the forward
  Dropout dropout = {};                        // of the forward
  // The angles of the rotary that made whole sequences' packed qkv, with the same documents. Then dq and dkv are one packed
  // matrix, the gradient of what that rotary rotated.
  std::optional<Tensor> cos_sin = {};
};

// The cache holds the keys and values of a sequence's positions, one row a position: all key heads, then all value heads.
struct CachedAttentionArgs {
  Tensor qkv;    // [T, (Hq + 2 Hkv) D], of the positions from shape.first_query on
  Tensor cache;  // [positions, 2 Hkv D]: rows below shape.first_query are read, the T rows from it on are written
  Tensor out;    // [T, Hq D], written
};

struct MergeAttentionArgs {
  Tensor part;              // [batch queries, Hq D], f32 or the activations' type
  Tensor part_log_sum_exp;  // [batch, Hq, queries] f32
  Tensor out;               // [batch queries, Hq D], changed; f32, so that each merge does not round
  Tensor log_sum_exp;       // [batch, Hq, queries] f32, changed
};

// --- Columns ---

struct CopyColumnsArgs {
  Tensor source;                  // [R, ...], of target's type, or one of them f32; in other memory
  std::int64_t source_begin = 0;  // the first of its columns
  Tensor target;                  // [R, ...], whose columns [target_begin, target_begin + count) are written
  std::int64_t target_begin = 0, count = 0;
};

// --- Loss ---

struct CrossEntropyBackwardArgs {
  Tensor logits;   // [T, V] or more columns, in place
  Tensor targets;  // [T] i32; negative: not counted
  VocabularyRows vocabulary;
  Tensor log_sum_exp;  // [T] f32, of the forward
  float scale;
};

struct CrossEntropyArgs {
  TensorParallel tp = {};
  Tensor logits;              // [T, V] of this rank's rows of the vocabulary, or more columns, which do not count
  Tensor targets;             // [T] i32; negative: not counted
  VocabularyRows vocabulary;  // of this rank
  Tensor log_sum_exp;         // [T] f32, written: over the whole vocabulary
  Tensor loss_sum;            // [1] f64, written
  // With a scale the logits become their gradient, as cross_entropy_backward makes it with this scale.
  std::optional<float> gradient_scale = {};

  CrossEntropyBackwardArgs backward() const { return {logits, targets, vocabulary, log_sum_exp, gradient_scale.value()}; }
};

struct CountedRowsArgs {
  Tensor logits;   // [T, C] or more columns
  Tensor targets;  // [T] i32
  Tensor rows;     // [batch, C] f64, written
};

// --- Flat arenas ---

struct CopyArgs {
  Tensor source;
  Tensor target;  // as many bytes, in other memory
};

struct ZeroArgs {
  Tensor tensor;
};

struct RoundArgs {
  Tensor source;  // f32
  Tensor target;  // [same length] bf16, f16 or f32, written
};

struct SquareSumArgs {
  Tensor tensor;  // f32
  Tensor sum;     // [1] f64, written
};

struct SquareSumEachArgs {
  std::span<const SquareSumArgs> sums;  // of tensors that have elements
};

struct SquareSumsArgs {
  Tensor tensor;  // f32
  Tensor sums;    // [elements / 65,536, rounded up] f64, written
};

struct AddArgs {
  Tensor target;  // f32 or f64, +=
  Tensor source;
};

}  // namespace pipetrain
