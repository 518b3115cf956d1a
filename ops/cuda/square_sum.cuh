// The sum of squares of one block of a tensor. Every kernel that sums squares adds it up in the same order. Device code only.
#pragma once

#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

constexpr int square_block_elements = 65536;  // the norm blocks of ops/ops.hpp
constexpr int square_threads = 512;

// Returns, in thread 0, the sum over the elements from `begin` on, square_block_elements of them or as many as
// there are. wide: the tensor is aligned to 16 bytes; each thread adds the same elements in either case.
// shared: [square_threads].
__device__ inline double square_sum_of_block(const float* data, std::int64_t begin, std::int64_t count, bool wide,
                                             double* shared) {
  constexpr int step = square_threads * 4, batch = 8;  // elements a round of the block; rounds in flight together
  static_assert(square_block_elements % (step * batch) == 0);
  const std::int64_t end = begin + square_block_elements < count ? begin + square_block_elements : count;
  double mine = 0;
  const auto add_square = [&](float value) { mine += static_cast<double>(value) * static_cast<double>(value); };
  if (wide && end - begin == square_block_elements) {
    for (std::int64_t first = begin + threadIdx.x * 4; first < end; first += step * batch) {
      Pack<float, 4> in[batch];
#pragma unroll
      for (int n = 0; n < batch; ++n) in[n] = load<4>(data, first / 4 + n * (step / 4));
#pragma unroll
      for (int n = 0; n < batch; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) add_square(in[n][i]);
      }
    }
  } else {
    for (std::int64_t first = begin + threadIdx.x * 4; first < end; first += step) {
      for (int i = 0; i < 4 && first + i < end; ++i) add_square(data[first + i]);
    }
  }
  shared[threadIdx.x] = mine;
  for (int half = square_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  return shared[0];
}

// Returns, in thread 0, the sum of a tensor's block sums, added in order. shared: [square_threads], not in use.
__device__ inline double add_block_sums(const double* partial, unsigned blocks, double* shared) {
  double total = 0;
  for (unsigned first = 0; first < blocks; first += square_threads) {
    __syncthreads();
    if (first + threadIdx.x < blocks) shared[threadIdx.x] = __ldcg(partial + first + threadIdx.x);
    __syncthreads();
    if (threadIdx.x != 0) continue;
    const unsigned count = blocks - first < square_threads ? blocks - first : square_threads;
    for (unsigned block = 0; block < count; ++block) total += shared[block];
  }
  return total;
}

}  // namespace pipetrain::cuda
