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

// Adds the biases of a tile's columns, of type T, to the sums of a group's 64 rows, whose layout wgmma.cuh describes.
template <class T>
__device__ __forceinline__ void add_bias(float (&sums)[128], const GroupedView& view, const GroupedTile& tile, int group) {
  if (view.bias == nullptr) return;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            row = 64 * group + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  const auto weight = [&](int at) {
    return view.weights == nullptr ? 1.0F : at < tile.rows ? view.weights[tile.row + at] : 0.0F;
  };
  const float upper = weight(row), lower = weight(row + 8);
  const T* const bias =
      static_cast<const T*>(view.bias) + static_cast<std::int64_t>(tile.expert) * view.n + tile.col + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    if (tile.col + 8 * j >= view.n) continue;
    const float2 pair = unpack<T>(*reinterpret_cast<const std::uint32_t*>(bias + 8 * j));
    sums[4 * j] += upper * pair.x, sums[4 * j + 1] += upper * pair.y;
    sums[4 * j + 2] += lower * pair.x, sums[4 * j + 3] += lower * pair.y;
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

}  // namespace pipetrain::cuda::hopper
