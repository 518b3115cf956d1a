// The arguments of causal attention over segments (ops/segment_shape.hpp).
#pragma once

#include <optional>

#include "core/tensor.hpp"
#include "ops/accumulate.hpp"
#include "ops/dropout.hpp"

namespace pipetrain {

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

struct MergeAttentionArgs {
  Tensor part;              // [batch queries, Hq D], f32 or the activations' type
  Tensor part_log_sum_exp;  // [batch, Hq, queries] f32
  Tensor out;               // [batch queries, Hq D], in place; f32, so that merges do not round
  Tensor log_sum_exp;       // [batch, Hq, queries] f32, in place
};

}  // namespace pipetrain
