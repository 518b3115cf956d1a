// The views of queries, keys and gradients in memory that the attention kernels share. Only for .cu files.
#pragma once

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/ops.hpp"

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

// Queries and keys in memory; heads.sequence counts the queries. T: the type of both.
template <class T>
struct Segment {
  Heads heads;
  int keys, key_rows;          // of each sequence: its keys, and the rows of kv of which they are the first
  int first_query, first_key;  // positions in the sequence
  int window;                  // a query sees the last `window` positions up to its own; 0: all of them
  const T *q, *kv;             // at the columns of the first query head and of the first key head
  std::int64_t q_cols, kv_cols;

  __device__ int ahead() const { return first_query - first_key; }
  // Returns the index of the first key that this query and all later ones see; for a query past the sequence, that of the last
  // query.
  __device__ int begin(int batch, int query) const {
    const int row = query < heads.sequence ? query : heads.sequence - 1, document = heads.document(batch, row) - first_key;
    const int within = window > 0 ? row + ahead() + 1 - window : 0;
    return max(0, max(document, within));
  }
  __device__ bool sees(int begin, int query, int key) const { return begin <= key && key <= query + ahead() && key < keys; }
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

template <class T, class Args>
Segment<T> segment_of(const SegmentShape& s, const Args& args) {
  return {.heads = heads_of(s, args),
          .keys = static_cast<int>(s.keys),
          .key_rows = static_cast<int>(args.kv.rows() / s.batch),
          .first_query = static_cast<int>(s.first_query),
          .first_key = static_cast<int>(s.first_key),
          .window = static_cast<int>(s.window),
          .q = data_of<T>(args.q),
          .kv = data_of<T>(args.kv) + args.kv.cols() - s.key_value_cols(),
          .q_cols = args.q.cols(),
          .kv_cols = args.kv.cols()};
}

}  // namespace pipetrain::cuda
