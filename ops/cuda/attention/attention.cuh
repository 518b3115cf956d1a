// The views of queries, keys and gradients in memory that the attention kernels share. Only for .cu files.
#pragma once

#include <type_traits>

#include "ops/arguments/all.hpp"
#include "ops/cuda/attention/key_pattern.hpp"
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda {

struct Heads {
  int sequence, heads, kv_heads, dim, value;  // value: the columns of a head's values; dim: those of its queries and keys
  double scale;
  const int* documents;  // null: a sequence is one document
  Dropout dropout;

  __device__ int group() const { return heads / kv_heads; }
  // Returns the position at which the query's document begins.
  __device__ int document(int batch, int query) const { return documents == nullptr ? 0 : documents[batch * sequence + query]; }
  // Returns the factor by which dropout multiplies this probability.
  __device__ float factor(int batch, int head, int query, int key) const {
    if (!dropout.active()) return 1;
    const auto words =
        dropout_words(dropout, key / dropout_columns, query, dropout.first_sample + batch, dropout.first_plane + head);
    return dropout_factor(dropout, words, key);
  }
};

template <class Args>
Heads heads_of(const SegmentShape& s, const Args& args) {
  return {static_cast<int>(s.queries),       static_cast<int>(s.heads),
          static_cast<int>(s.kv_heads),      static_cast<int>(s.head_dim),
          static_cast<int>(s.value_dim()),   s.exact_score_scale(),
          data_or_null<int>(args.documents), args.dropout};
}

// Queries and keys in memory; heads.sequence counts the queries. T: the type of both. Kernels are compiled apart for patterns,
// so that these cost nothing where a query sees all keys of its window: sparse is true for them.
template <class T>
struct Segment {
  Heads heads;
  int keys, key_rows;          // of each sequence: its keys, and the rows of kv of which they are the first
  int first_query, first_key;  // positions in the sequence
  KeyPattern pattern;
  const T *q, *kv;  // at the columns of the first query head and of the first key head
  std::int64_t q_cols, kv_cols;

  __device__ int ahead() const { return first_query - first_key; }
  // Returns the index of the first key that this query and all later ones see; for a query past the sequence, that of the last
  // query.
  __device__ int begin(int batch, int query) const {
    const int row = query < heads.sequence ? query : heads.sequence - 1, document = heads.document(batch, row) - first_key;
    const int within = pattern.window > 0 ? row + ahead() + 1 - pattern.window : 0;
    return max(0, max(document, within));
  }
  // Returns the reach of a query; for one past the sequence, that of the last query.
  template <bool sparse>
  __device__ KeyReach reach(int batch, int query) const {
    if constexpr (!sparse) return {begin(batch, query), 0};
    const int row = query < heads.sequence ? query : heads.sequence - 1;
    return pattern.reach(row + ahead(), heads.document(batch, row) - first_key);
  }
  template <bool sparse>
  __device__ bool sees(const KeyReach& of, int query, int key) const {
    if constexpr (!sparse) return of.begin <= key && key <= query + ahead() && key < keys;
    return key <= query + ahead() && key < keys && pattern.shows(of, key);
  }
  // The tiles of keys that hold one that some of the queries from `first` on may see: the first of them, the next after one,
  // and whether a tile is one of them.
  template <bool sparse, int tile>
  __device__ int first_tile(const KeyReach& first) const {
    return sparse ? pattern.next_tile(first, 0, tile) : first.begin / tile * tile;
  }
  template <bool sparse, int tile>
  __device__ int next_tile(const KeyReach& first, int key) const {
    return sparse ? pattern.next_tile(first, key + tile, tile) : key + tile;
  }
  template <bool sparse, int tile>
  __device__ bool shows_tile(const KeyReach& first, int key) const {
    return sparse ? pattern.shows_tile(first, key, tile) : first.begin < key + tile;
  }
  // Returns true if no later query sees a tile that these do not see.
  template <bool sparse, int tile>
  __device__ bool is_past(const KeyReach& first, int key) const {
    return !sparse || pattern.is_past(first, key, tile);
  }
  __device__ float factor(int batch, int head, int query, int key) const {
    return heads.factor(batch, head, first_query + query, first_key + key);
  }
  __device__ const T* query_head(int batch, int head) const {
    return q + static_cast<std::int64_t>(batch) * heads.sequence * q_cols + head * heads.dim;
  }
  __device__ const T* key_head(int batch, int head) const {
    return kv + static_cast<std::int64_t>(batch) * key_rows * kv_cols + head * heads.dim;
  }
  __device__ const T* value_head(int batch, int head) const { return key_head(batch, heads.kv_heads) + head * heads.value; }
};

// The destination of a gradient, from its first head's column on.
template <class T>
struct Gradient {
  T* to;
  std::int64_t rows, cols;  // rows: of each sequence
  bool adds;

  __device__ T* at(int batch, int column, int row) const { return to + (batch * rows + row) * cols + column; }
};

template <class T>
Gradient<T> query_gradient(const SegmentShape& s, const AttentionBackwardArgs& args) {
  return {data_of<T>(args.dq), s.queries, args.dq.cols(), args.accumulate_dq == Accumulate::yes};
}
template <class T>
Gradient<T> key_gradient(const SegmentShape& s, const AttentionBackwardArgs& args) {
  return {data_of<T>(args.dkv) + args.dkv.cols() - s.key_value_cols(), args.dkv.rows() / s.batch, args.dkv.cols(),
          args.accumulate_dkv == Accumulate::yes};
}

// Calls body(std::bool_constant<sparse>()).
template <class Body>
void with_pattern(const SegmentShape& s, Body body) {
  s.is_sparse() ? body(std::true_type{}) : body(std::false_type{});
}

template <class T, class Args>
Segment<T> segment_of(const SegmentShape& s, const Args& args) {
  return {.heads = heads_of(s, args),
          .keys = static_cast<int>(s.keys),
          .key_rows = static_cast<int>(args.kv.rows() / s.batch),
          .first_query = static_cast<int>(s.first_query),
          .first_key = static_cast<int>(s.first_key),
          .pattern = pattern_of(s),
          .q = data_of<T>(args.q),
          .kv = data_of<T>(args.kv) + args.kv.cols() - s.key_value_cols(),
          .q_cols = args.q.cols(),
          .kv_cols = args.kv.cols()};
}

}  // namespace pipetrain::cuda
