// How the threads of a warp share heads: the forward and the backward of norms over heads. Only for .cu files.
#pragma once

#include <string>

#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// The sizes of a packed qkv [T, (Hq + 2 Hkv) D].
struct HeadRows {
  int sequence, heads, kv_heads, dim;
  std::int64_t stride;  // columns of a row of qkv

  __host__ __device__ int normed_heads() const { return heads + kv_heads; }
};

inline HeadRows head_rows(const SegmentShape& shape) {
  return {static_cast<int>(shape.queries), static_cast<int>(shape.heads), static_cast<int>(shape.kv_heads),
          static_cast<int>(shape.head_dim), shape.packed_cols()};
}

// The norm of queries or of keys, as pointers.
template <class T, class TW>
struct HeadNormView {
  const TW* weight;
  T* input;
  float* inv_rms;
};

template <class T, class TW>
HeadNormView<T, TW> view_of(const HeadNorm& norm) {
  return {data_of<TW>(norm.weight), data_of<T>(norm.input), data_of<float>(norm.inv_rms)};
}

inline bool aligned16(const HeadNorm& norm) { return aligned16(norm.weight.data) && aligned16(norm.input.data); }

// Sums over `lanes` adjacent threads, a power of two.
template <class R>
__device__ R lanes_sum(R value, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

// Returns the threads of a warp that share a row of this many packs: a power of two.
inline int lanes_for(int packs) {
  int lanes = 1;
  while (lanes < packs && lanes < 32) lanes *= 2;
  return lanes;
}

constexpr int most_head_size = 256;

inline void check_head_size(const SegmentShape& shape) {
  if (shape.head_dim % 2 != 0 || shape.head_dim > most_head_size)
    throw Error(ErrorKind::unavailable, "norms of heads on GPUs: head size " + std::to_string(shape.head_dim) +
                                            " is odd or above " + std::to_string(most_head_size));
}

}  // namespace pipetrain::cuda
