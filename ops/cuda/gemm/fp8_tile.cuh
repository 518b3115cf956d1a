// Code that the kernels for rounding to 8 bits share: scales, and the transposed tile that they write from
// shared memory. Device code only.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// Returns the type's largest number.
template <__nv_fp8_interpretation_t type>
constexpr float type_maximum = type == __NV_E4M3 ? 448.0F : 57344.0F;

// Returns the factor by which numbers of this largest magnitude are multiplied: 1 for zeros, NaN if the
// magnitude is not finite, and the largest float if the quotient is infinite.
template <__nv_fp8_interpretation_t type>
__device__ float scale_of(float largest) {
  if (largest == 0) return 1;
  if (!isfinite(largest)) return __int_as_float(0x7fffffff);
  const float scale = type_maximum<type> / largest;
  return isinf(scale) ? 3.402823466e38F : scale;
}

template <__nv_fp8_interpretation_t type>
__device__ unsigned quantise4(const bf16* x, float scale) {
  const auto pair = [&](const bf16* two) -> unsigned {
    return __nv_cvt_float2_to_fp8x2({to_float(two[0]) * scale, to_float(two[1]) * scale}, __NV_SATFINITE, type);
  };
  return pair(x) | pair(x + 2) << 16;
}

// a[i] holds 4 columns of row i; result[j] holds 4 rows of column j.
__device__ inline void transpose4(const unsigned (&a)[4], unsigned (&result)[4]) {
  const unsigned upper_left = __byte_perm(a[0], a[1], 0x5140), upper_right = __byte_perm(a[0], a[1], 0x7362);
  const unsigned lower_left = __byte_perm(a[2], a[3], 0x5140), lower_right = __byte_perm(a[2], a[3], 0x7362);
  result[0] = __byte_perm(upper_left, lower_left, 0x5410);
  result[1] = __byte_perm(upper_left, lower_left, 0x7632);
  result[2] = __byte_perm(upper_right, lower_right, 0x5410);
  result[3] = __byte_perm(upper_right, lower_right, 0x7632);
}

constexpr int tile = 128;  // rows and columns of a block of threads
constexpr int tile_threads = 256;
constexpr int row_words = tile / 4;     // words in a column of the transposed tile
constexpr int column_packs = tile / 8;  // of 8 columns

// Returns the index of a word of the transposed tile in shared memory. With this distance between columns
// neither access below makes two threads of a warp use one bank.
__device__ inline int word_at(int column, int row_word) { return column * (row_words + 1) + column / 32 + row_word; }

constexpr int transposed_words = tile * (row_words + 1) + tile / 32;

struct TransposedMatrix {
  unsigned char* at;  // [n, padded_m]
  std::int64_t n, padded_m;
};

// Each of tile_threads threads writes 16 rows of a column, and each warp 4 columns at once.
__device__ inline void write_transposed(const TransposedMatrix& out, const unsigned* transposed, std::int64_t first_row,
                                        std::int64_t first_column) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t row = first_row + lane % 8 * 16;
  for (int c = warp * 4 + lane / 8; c < tile; c += tile_threads / 8) {
    if (first_column + c >= out.n || row >= out.padded_m) continue;
    const unsigned* const words = transposed + word_at(c, lane % 8 * 4);
    *reinterpret_cast<uint4*>(out.at + (first_column + c) * out.padded_m + row) = {words[0], words[1], words[2], words[3]};
  }
}

}  // namespace pipetrain::cuda
