// The tiles, and the view of tensors and intermediate results, that the kernels of attention's backward on
// Hopper GPUs share. Only for .cu files.
//
// Shapes: a group is the Hq / Hkv query heads that share a key-value head. D is 64, 96, 128, 192 or 256, and V is 128 if D is
// 192, otherwise D. A tile is 64 or 128 queries of one query head, a block 64 or 128 keys of one key-value head. BackwardView
// says where each intermediate result lies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/cuda/hopper/attention_hopper.hpp"
#include "ops/cuda/rotate.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda::hopper {

// The shape of a tile of queries: as many as the registers can hold the products of with a block of keys. With heads of 64 to
// 192 each of two groups of warps has half of a block's keys; with heads of 256 each has all 64 keys, and half of the queries
// of their scores and half of the columns of their gradients.
template <int HeadDim, class Number, bool HasBegins>
struct Tile {
  using Element = Number;
  static constexpr int head_dim = HeadDim;  // of queries and keys: 64, 96, 128, 192 or 256
  static constexpr int value_dim = static_cast<int>(hopper_attention_values(HeadDim));
  // The columns of a head in shared memory. Those past the head's are of what follows it in the matrix, or zeros; the results
  // in them are not stored.
  static constexpr int columns = hopper_attention_columns(HeadDim), value_columns = hopper_attention_columns(value_dim);
  static constexpr bool is_wide = HeadDim == 256;
  static constexpr bool has_parts = value_dim == head_dim;  // a group of query heads may be divided: see parts_of()
  static constexpr int keys = hopper_attention_keys(HeadDim);
  static constexpr int queries = hopper_attention_queries(HeadDim);
  // Buffers in shared memory: of tiles of queries, of the same rows of dout, and of blocks of keys.
  static constexpr int query_stages = 2, dout_stages = is_wide ? 1 : 2, key_buffers = HeadDim > 128 ? 1 : 2;
  static constexpr bool has_begins = HasBegins;  // documents or a window limit the keys that a query sees
  static constexpr int statistics = HasBegins ? 4 : 3;
  // The elements of dQ, in boxes of 64 queries and 64 columns. In each round each of the two groups of warps adds to one of
  // them. To the third box of three both groups add, each what its own keys contribute.
  static constexpr int sums = queries * columns, sums_of_box = 64 * 64, sum_rounds = (sums / sums_of_box + 1) / 2;
  static constexpr int sum_box(int group, int round) {
    return columns == 192 && round == 1 ? 2 : group * (columns == 192 ? 1 : sum_rounds) + round;
  }
  // Registers of a thread. A key group's registers hold everything it needs; values that the loader spills to
  // memory arrive late for tiles of 64. Together the three groups of warps have 168 for each thread, and more would never be
  // given.
  static constexpr bool has_small_loader = HeadDim == 64 || HeadDim == 192;
  static constexpr int key_group_registers = has_small_loader ? 240 : 232, loader_registers = has_small_loader ? 24 : 40;
  static_assert(2 * key_group_registers + loader_registers <= 3 * 168);
};

// The statistics of each tile of queries: [Tile::statistics][queries] f32.
enum Statistic : int {
  log2_sum,      // log2 of the softmax's sum
  delta,         // dout . out
  inverse_norm,  // 1 / |dout|; 0 for a row of zeros, NaN if dout or the sum is not finite
  begin          // the bits of an i32: the first key that the query sees, counted from the segment's first one
};

struct BackwardView {
  int batch, queries, keys, heads, kv_heads;  // queries, keys: in each sequence; the last query attends to the last key
  // Rows of each sequence in kv, in dkv or `added`, and in key_sums; its keys are the first.
  int kv_rows, dkv_rows, sum_rows;
  int parts;             // a group of query heads that share a key head is divided into parts; each is another block's
  int first_query;       // its position, counted from the first key's
  int window;            // a query sees the last `window` positions up to its own; 0: all of them
  float scale;           // the softmax's
  const int* documents;  // [batch, queries]: the first position of each query's document; null: a sequence is one document
  int* ends;             // [batch, key blocks]: the first tile of queries that sees none of these keys any more; null: all do
  float* statistics;     // [batch, heads, query tiles, statistics, tile]
  int section;           // blocks of this many of the batch * kv_heads * parts run at about the same time; divides them
  unsigned* largest;     // [batch, kv_heads, 2]: bits of the largest |k| of an element and |v|^2 of a row
  int* tickets;          // [1]: the number of blocks taken so far
  int* query_sums;       // [batch, heads, query tiles, boxes, 64 * 64]: dQ as integers
  float* key_sums;  // [parts, batch sum_rows, kv_heads (D + V)]: dK, dV of each part, or null; with one part equal to `added`
  float* added;     // [batch dkv_rows, kv_heads (D + V)]: dK and dV are added to it; null: they are rounded to dkv
  void *dq, *dkv;   // at the columns of the first query head and of the first key head
  std::int64_t dq_cols, dkv_cols;
  const float* cos_sin;  // [keys, 2, D/2] of the rotation that produced whole sequences' queries and keys, or null
  // True if dQ is f32, and if it is added to.
  bool sums_dq, adds_dq;

  __host__ __device__ int group() const { return heads / kv_heads; }
  __host__ __device__ int ahead() const { return first_query; }  // the number of keys before the first query's position
  bool has_begins() const { return documents != nullptr || window > 0; }
  // Returns the first key, counted from the segment's first one, that a query and all later ones see.
  __device__ int begin_of(int sequence, int query) const {
    const int document = documents == nullptr ? 0 : documents[static_cast<std::int64_t>(sequence) * queries + query];
    return window > 0 ? max(document, ahead() + query + 1 - window) : document;
  }
};

// The last tile and the last block of a sequence may be filled in part. The rows that follow it, of the next sequence or zeros,
// then take part in the products: queries of such rows have probabilities of zero, and no query sees keys of such rows.
template <class Tile>
__host__ __device__ constexpr int query_tiles(const BackwardView& view) {
  return (view.queries + Tile::queries - 1) / Tile::queries;
}
template <class Tile>
__host__ __device__ constexpr int key_blocks(const BackwardView& view) {
  return (view.keys + Tile::keys - 1) / Tile::keys;
}

// dQ is added as integers, because integer sums are the same in every order: row i is multiplied by
// 2^30 / (2.04 |dout_i| max|v| max|k|).
// No partial sum of a row exceeds 2^30: dS_ij = P_ij (dP_ij - delta_i), |dP_ij| and |delta_i| are at most
// |dout_i| max|v|, and the P_ij of a row add up to 1; 2 % are for rounding. Typical gradients are 2^-11 to
// 2^-15 of that bound, so they keep 15 to 19 bits, while dS has 8 or 11.
__device__ __forceinline__ float integers_per_unit(const unsigned* largest) {
  const float key = __uint_as_float(largest[0]), value = sqrtf(__uint_as_float(largest[1]));
  const float product = key * value;
  return 1073741824.0F / 2.04F / (product <= 1e-8F ? 1e-8F : product);  // NaN stays NaN
}

// Lanes that differ in bit `away` exchange a word: the lane without the bit gives `second`, the other `first`.
// Selections are used because divergent branches cost more than their bodies.
__device__ __forceinline__ void exchange(std::uint32_t& first, std::uint32_t& second, int away) {
  const bool upper = (threadIdx.x & away) != 0;
  const std::uint32_t taken = __shfl_xor_sync(~0U, upper ? first : second, away);
  first = upper ? taken : first;
  second = upper ? second : taken;
}

// Each of the four lanes of a quad holds one word of each of four ranges of four words; lane l gets range l, 16
// contiguous bytes.
__device__ __forceinline__ uint4 run_of_lane(std::uint32_t w0, std::uint32_t w1, std::uint32_t w2, std::uint32_t w3) {
  exchange(w0, w1, 1);
  exchange(w2, w3, 1);
  exchange(w0, w2, 2);
  exchange(w1, w3, 2);
  return {w0, w1, w2, w3};
}

// Two adjacent elements of the first half of a position's query or key, and the two of the second half that rotate with them.
struct RotatedWords {
  std::uint32_t first, second;
};
struct Rotation {
  float2 cosines, sines;  // one for each of the two adjacent elements
};

// position, col: those of the first element.
template <class Tile>
__device__ __forceinline__ Rotation rotation_at(const BackwardView& view, int position, int col) {
  const float* const cosines = view.cos_sin + static_cast<std::int64_t>(position) * Tile::head_dim + col;
  return {__ldg(reinterpret_cast<const float2*>(cosines)),
          __ldg(reinterpret_cast<const float2*>(cosines + Tile::head_dim / 2))};
}

// Rotates a rounded gradient back, with the same bits as rotary().
template <class Element>
__device__ __forceinline__ RotatedWords rotated_back(RotatedWords words, const Rotation& rotation) {
  const float2 first = unpack<Element>(words.first), second = unpack<Element>(words.second);
  const float2 even = rotated(first.x, second.x, rotation.cosines.x, -rotation.sines.x),
               odd = rotated(first.y, second.y, rotation.cosines.y, -rotation.sines.y);
  return {pack<Element>(even.x, odd.x), pack<Element>(even.y, odd.y)};
}

// attention_preprocess.cu: zeroes view.query_sums and view.tickets; writes view.statistics, view.largest and, with documents
// or a window, view.ends.
template <class Tile>
void preprocess(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args);

// attention_postprocess.cu: rounds view.query_sums to view.dq or adds them to it. If there are parts, it adds
// up the sums of view.key_sums and writes dK and dV. If the view has angles, it rotates dQ and dK back.
template <class Tile>
void postprocess(cudaStream_t stream, const BackwardView& view);

// attention_backward.cu: runs all three steps, with the tile for these heads, types, documents and window. head_dim: D
void run_backward(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args, std::int64_t head_dim,
                  int multiprocessors);

// Applies a macro of (head size, element type, whether documents or a window limit the keys) to every tile that there are
// kernels for.
// clang-format off
#define PIPETRAIN_FOR_EACH_TILE(apply) \
  apply(64, __nv_bfloat16, false)      \
  apply(64, __nv_bfloat16, true)       \
  apply(96, __nv_bfloat16, false)      \
  apply(96, __nv_bfloat16, true)       \
  apply(128, __nv_bfloat16, false)     \
  apply(128, __nv_bfloat16, true)      \
  apply(192, __nv_bfloat16, false)     \
  apply(192, __nv_bfloat16, true)      \
  apply(256, __nv_bfloat16, false)     \
  apply(256, __nv_bfloat16, true)      \
  apply(64, __half, false)             \
  apply(64, __half, true)              \
  apply(96, __half, false)             \
  apply(96, __half, true)              \
  apply(128, __half, false)            \
  apply(128, __half, true)             \
  apply(192, __half, false)            \
  apply(192, __half, true)             \
  apply(256, __half, false)            \
  apply(256, __half, true)
// clang-format on

}  // namespace pipetrain::cuda::hopper
