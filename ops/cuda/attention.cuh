// What the kernels of attention share. Only for .cu files.
#pragma once

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

struct Heads {
  int sequence, heads, kv_heads, dim;
  double scale;
  const int* documents;  // null: a sequence is one document
  Dropout dropout;

  __device__ int packed() const { return (heads + 2 * kv_heads) * dim; }
  __device__ int group() const { return heads / kv_heads; }
  // The first key that this query and all later ones see; of a query past the sequence, what the last one sees.
  __device__ int begin(int batch, int query) const {
    return documents == nullptr ? 0 : documents[batch * sequence + (query < sequence ? query : sequence - 1)];
  }
  // What this probability is multiplied with.
  __device__ float factor(int batch, int head, int query, int key) const {
    if (!dropout.active()) return 1;
    const auto words =
        dropout_words(dropout, key / dropout_columns, query, dropout.first_sample + batch, dropout.first_plane + head);
    return dropout_factor(dropout, words, key);
  }
};

// Where head `index` (query heads, then key heads, then value heads) of sequence `batch` begins in a packed matrix.
template <class T>
__device__ T* packed_head(T* packed, const Heads& h, int batch, int index) {
  return packed + static_cast<std::int64_t>(batch) * h.sequence * h.packed() + index * h.dim;
}

template <class Args>
Heads heads_of(const AttentionShape& s, const Args& args) {
  return {static_cast<int>(s.sequence),
          static_cast<int>(s.heads),
          static_cast<int>(s.kv_heads),
          static_cast<int>(s.head_dim),
          1.0 / sqrt(static_cast<double>(s.head_dim)),
          data_or_null<int>(args.documents),
          args.dropout};
}

}  // namespace pipetrain::cuda
