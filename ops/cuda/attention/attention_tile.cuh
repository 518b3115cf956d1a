// The tiles of 32 queries by 32 keys in shared memory that attention.cu and attention_gradients.cu share. Eight
// threads process each row of a tile. Only for .cu files.
#pragma once

#include <algorithm>

#include "ops/cuda/attention/attention.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 32;  // queries and keys in a tile
constexpr int lanes = 8;  // threads that share a row of a tile
constexpr int threads = tile * lanes;
constexpr int per_lane = tile / lanes;

// A tile of rows of one head in shared memory, with one float of padding a row; rows from `end` on are zero.
struct Rows {
  float* at;
  int stride;

  __device__ Rows(float* memory, int index, int dim) : at(memory + index * tile * (dim + 1)), stride(dim + 1) {}
  __device__ const float* row(int r) const { return at + r * stride; }
  template <class T>
  __device__ void load(const T* head, std::int64_t row_stride, int first, int end, int dim) {
    for (int i = threadIdx.x; i < tile * dim; i += threads) {
      const int r = i / dim, d = i % dim;
      at[r * stride + d] = first + r < end ? to_float(head[(first + r) * row_stride + d]) : 0.0F;
    }
  }
};

// R: the type of sums, Real of the tensors' type.
template <class R>
__device__ R dot(const float* a, const float* b, int dim) {
  R sum = 0;
  for (int d = 0; d < dim; ++d) sum += static_cast<R>(a[d]) * static_cast<R>(b[d]);
  return sum;
}

// acc += weights [tile] x rows, for the elements of this thread: d = lane + lanes * j.
template <class R, int J>
__device__ void accumulate(R (&acc)[J], const R* weights, const Rows& rows, int lane, int dim) {
  for (int c = 0; c < tile; ++c) {
    const R weight = weights[c];
    const float* row = rows.row(c);
#pragma unroll
    for (int j = 0; j < J; ++j) {
      if (lane + lanes * j < dim) acc[j] += weight * static_cast<R>(row[lane + lanes * j]);
    }
  }
}

template <class T, class R, int J>
__device__ void write(T* out, const R (&acc)[J], R factor, int lane, int dim, bool adds = false) {
#pragma unroll
  for (int j = 0; j < J; ++j) {
    if (lane + lanes * j >= dim) continue;
    T& to = out[lane + lanes * j];
    R value = acc[j] * factor;
    if (adds) value += static_cast<R>(to_float(to));
    to = from_float<T>(static_cast<float>(value));
  }
}

// Returns the columns of the widest of a head's tensors.
inline std::int64_t widest_head(const SegmentShape& shape) { return std::max(shape.head_dim, shape.value_dim()); }

// Calls body(Constant<J>), where J is the number of a head's elements that each of its threads holds.
template <class Body>
void with_head_size(std::int64_t head_dim, Body body) {
  if (head_dim <= 32) return body(Constant<4>{});
  if (head_dim <= 64) return body(Constant<8>{});
  if (head_dim <= 128) return body(Constant<16>{});
  if (head_dim <= 256) return body(Constant<32>{});
  throw Error(ErrorKind::unavailable, "attention on GPUs: head size " + std::to_string(head_dim) + " is above 256");
}

// The kernel's grid has one block for every tile of rows of every head.
struct Grid {
  std::int64_t rows, heads, batch;
  std::int64_t tiles_held, head_dim;  // tiles in shared memory, and the head size there
};

template <class Kernel, class... Arguments>
void launch(Kernel kernel, const Grid& of, cudaStream_t stream, Arguments... arguments) {
  const auto bytes = static_cast<int>(static_cast<std::size_t>(of.tiles_held * tile * (of.head_dim + 1)) * sizeof(float));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const dim3 grid(blocks_for(of.rows, tile), static_cast<unsigned>(of.heads), static_cast<unsigned>(of.batch));
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), stream>>>(arguments...);
}

}  // namespace
}  // namespace pipetrain::cuda
