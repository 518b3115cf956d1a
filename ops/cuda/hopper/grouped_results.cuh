// Writing the sums of a grouped product's tile, whose layout wgmma.cuh describes, to global memory: lanes first exchange
// elements, so that each writes 16 bytes. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/bulk_copy.cuh"
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

// Memory for half of the columns of a warp's 16 rows. Rows are 32 bytes apart from each other, so that no two lanes of a store
// use the same bank.
struct ExactRows {
  static constexpr int cols = grouped::cols / 2, stride = cols + 8;
  alignas(16) float at[16 * stride];
};

// Writes 64 rows and 256 columns of fp32 without a wait for global memory, or adds to them: the copy engine reads the rows
// while the warps go on with the next tile. rows: of this warp.
__device__ __forceinline__ void store_exact(const float (&sums)[128], float* out, std::int64_t stride, int limit, int cols,
                                            bool adds, ExactRows& rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first_row = static_cast<int>(threadIdx.x) % 128 / 32 * 16;
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    wait_for_reads();
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const int sum = 4 * (16 * side + j);
      float* const to = rows.at + lane / 4 * ExactRows::stride + 8 * j + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = {sums[sum], sums[sum + 1]};
      *reinterpret_cast<float2*>(to + 8 * ExactRows::stride) = {sums[sum + 2], sums[sum + 3]};
    }
    publish_shared();
    __syncwarp();
    const int col = side * ExactRows::cols;
    if (lane < 16 && first_row + lane < limit && col < cols) {
      float* const to = out + (first_row + lane) * stride + col;
      const float* const from = rows.at + lane * ExactRows::stride;
      const int bytes = min(ExactRows::cols, cols - col) * static_cast<int>(sizeof(float));
      adds ? add_floats(to, from, bytes) : store_floats(to, from, bytes);
    }
    close_copies();
  }
}

}  // namespace pipetrain::cuda::hopper
