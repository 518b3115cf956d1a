// Writing the sums of a grouped product's tile, whose layout wgmma.cuh describes, to global memory: lanes first exchange
// elements, so that each writes 16 bytes. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/grouped_tiles.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda::hopper {

// Transposes four words of each of four adjacent lanes: lane q's word i becomes lane i's word q.
__device__ __forceinline__ void transpose_words(std::uint32_t (&words)[4], int lane) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const std::uint32_t received = __shfl_xor_sync(~0U, upper ? words[i] : words[i + step], step);
      (upper ? words[i] : words[i + step]) = received;
    }
  }
}

// Writes 64 rows and 256 columns, rounded. `limit`: the number of rows that exist.
template <class T>
__device__ __forceinline__ void store_rounded(const float (&sums)[128], T* out, std::int64_t stride, int limit, int cols) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first_row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < 32; j += 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = pack<T>(sums[4 * (j + i) + 2 * half], sums[4 * (j + i) + 2 * half + 1]);
      transpose_words(words, lane);
      const int row = first_row + 8 * half, col = 8 * (j + lane % 4);
      if (row < limit && col < cols)
        *reinterpret_cast<uint4*>(out + row * stride + col) = {words[0], words[1], words[2], words[3]};
    }
  }
}

// Writes 64 rows and 256 columns of fp32, or adds to them. They are read and written once, so they leave the cache first: a
// third less time than with the operands evicted.
__device__ __forceinline__ void store_exact(const float (&sums)[128], float* out, std::int64_t stride, int limit, int cols,
                                            bool adds) {
  constexpr int batch = 8;  // loads of one thread in flight
  const int lane = static_cast<int>(threadIdx.x) % 32, first_row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  const bool odd = lane % 2 != 0;
  const int own_col = (odd ? 8 : 0) + lane % 4 / 2 * 4;  // of the 16 that four lanes write
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half;
    float* const to = out + row * stride + own_col;
#pragma unroll
    for (int first = 0; first < 32; first += 2 * batch) {
      float4 before[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int col = 8 * (first + 2 * i);
        before[i] = adds && row < limit && col + own_col < cols ? __ldcs(reinterpret_cast<const float4*>(to + col)) : float4{};
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int j = 4 * (first + 2 * i) + 2 * half, col = 8 * (first + 2 * i);
        const float x = __shfl_xor_sync(~0U, odd ? sums[j] : sums[j + 4], 1),
                    y = __shfl_xor_sync(~0U, odd ? sums[j + 1] : sums[j + 5], 1);
        const float4 own = odd ? float4{x, y, sums[j + 4], sums[j + 5]} : float4{sums[j], sums[j + 1], x, y};
        if (row < limit && col + own_col < cols)
          __stcs(reinterpret_cast<float4*>(to + col),
                 {before[i].x + own.x, before[i].y + own.y, before[i].z + own.z, before[i].w + own.w});
      }
    }
  }
}

}  // namespace pipetrain::cuda::hopper
