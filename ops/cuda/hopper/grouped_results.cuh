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

// Transposes eight vectors of each of eight lanes at a distance of four: of them, lane q's vector i becomes lane i's vector q.
__device__ __forceinline__ void transpose_vectors(float4 (&vectors)[8], int lane) {
  const auto exchange = [](float mine, int step) { return __shfl_xor_sync(~0U, mine, 4 * step); };
#pragma unroll
  for (int step = 1; step < 8; step *= 2) {
    const bool upper = (lane / 4 & step) != 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if ((i & step) != 0) continue;
      const float4 sent = upper ? vectors[i] : vectors[i + step];
      (upper ? vectors[i] : vectors[i + step]) = {exchange(sent.x, step), exchange(sent.y, step), exchange(sent.z, step),
                                                  exchange(sent.w, step)};
    }
  }
}

// Writes 64 rows and 256 columns of fp32, or adds to them. A warp reads and writes 512 bytes of a row at a time, because memory
// delivers less if the accesses in flight are shorter. The values leave the cache first: they are needed only once.
__device__ __forceinline__ void store_exact(const float (&sums)[128], float* out, std::int64_t stride, int limit, int cols,
                                            bool adds) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first_row = static_cast<int>(threadIdx.x) % 128 / 32 * 16;
  const bool odd = lane % 2 != 0;
  // The 16 columns that four lanes write: lanes 0 and 2 have the first eight of them, 1 and 3 the others.
  const int own_col = lane / 4 * 16 + (odd ? 8 : 0) + lane % 4 / 2 * 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      float* const to = out + (first_row + 8 * half) * stride + 128 * side + own_col;
      const bool has_cols = 128 * side + own_col < cols;
      const auto exists = [&](int row) { return has_cols && first_row + 8 * half + row < limit; };
      float4 before[8], own[8];
#pragma unroll
      for (int row = 0; row < 8; ++row)
        before[row] = adds && exists(row) ? __ldcs(reinterpret_cast<const float4*>(to + row * stride)) : float4{};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int j = 4 * (16 * side + 2 * i) + 2 * half;
        const float x = __shfl_xor_sync(~0U, odd ? sums[j] : sums[j + 4], 1),
                    y = __shfl_xor_sync(~0U, odd ? sums[j + 1] : sums[j + 5], 1);
        own[i] = odd ? float4{x, y, sums[j + 4], sums[j + 5]} : float4{sums[j], sums[j + 1], x, y};
      }
      transpose_vectors(own, lane);
#pragma unroll
      for (int row = 0; row < 8; ++row) {
        if (exists(row))
          __stcs(reinterpret_cast<float4*>(to + row * stride), {before[row].x + own[row].x, before[row].y + own[row].y,
                                                                before[row].z + own[row].z, before[row].w + own[row].w});
      }
    }
  }
}

}  // namespace pipetrain::cuda::hopper
