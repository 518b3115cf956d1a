// Two ways of adding the sums of a group's 64 rows and 256 columns, whose layout wgmma.cuh describes, to the gradients so far:
// in registers, or in shared memory. Only for .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace pipetrain::cuda::hopper {

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

// The gradients in global memory, which sums replace or are added to in registers. A thread reads and writes them in four
// quarters of eight vectors: a warp's accesses are 512 bytes of a row, because memory delivers less if the accesses in
// flight are shorter. The values leave the cache first: they are needed only once.
class ExactRows {
 public:
  using Vectors = float4[8];

  // limit, cols: the rows and the columns that exist.
  __device__ ExactRows(float* out, std::int64_t stride, int limit, int cols)
      : out_(out + (first_row() * stride + own_col())), stride_(stride), limit_(limit), cols_(cols) {}

  // Begins to read the values of a quarter, which may arrive while products are computed.
  template <int quarter>
  __device__ __forceinline__ void read(Vectors& values) const {
#pragma unroll
    for (int row = 0; row < 8; ++row)
      values[row] = exists<quarter>(row) ? __ldcs(reinterpret_cast<const float4*>(at<quarter>(row))) : float4{};
  }

  // Writes the sums of a quarter, plus `before`.
  template <int quarter>
  __device__ __forceinline__ void write(const float (&sums)[128], const Vectors& before) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool odd = lane % 2 != 0;
    Vectors own;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int j = 4 * (16 * side<quarter> + 2 * i) + 2 * half<quarter>;
      const float x = __shfl_xor_sync(~0U, odd ? sums[j] : sums[j + 4], 1),
                  y = __shfl_xor_sync(~0U, odd ? sums[j + 1] : sums[j + 5], 1);
      own[i] = odd ? float4{x, y, sums[j + 4], sums[j + 5]} : float4{sums[j], sums[j + 1], x, y};
    }
    transpose_vectors(own, lane);
#pragma unroll
    for (int row = 0; row < 8; ++row) {
      if (exists<quarter>(row))
        __stcs(reinterpret_cast<float4*>(at<quarter>(row)), {before[row].x + own[row].x, before[row].y + own[row].y,
                                                             before[row].z + own[row].z, before[row].w + own[row].w});
    }
  }

 private:
  template <int quarter>
  static constexpr int half = quarter / 2;  // of the 16 rows of a warp
  template <int quarter>
  static constexpr int side = quarter % 2;  // of the columns

  static __device__ __forceinline__ int first_row() { return static_cast<int>(threadIdx.x) % 128 / 32 * 16; }
  // The 16 columns that four lanes write: lanes 0 and 2 have the first eight of them, 1 and 3 the others.
  static __device__ __forceinline__ int own_col() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return lane / 4 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
  }

  template <int quarter>
  __device__ __forceinline__ bool exists(int row) const {
    return 128 * side<quarter> + own_col() < cols_ && first_row() + 8 * half<quarter> + row < limit_;
  }
  template <int quarter>
  __device__ __forceinline__ float* at(int row) const {
    return out_ + (8 * half<quarter> + row) * stride_ + 128 * side<quarter>;
  }

  float* const out_;
  const std::int64_t stride_;
  const int limit_, cols_;
};

// Adds the sums to the gradients so far in shared memory, rows of 256 columns, or replaces them. Lanes of four adjacent rows,
// whose addresses share banks, pass over four vectors of eight columns in different orders.
template <bool adds>
__device__ __forceinline__ void add_in_shared(const float (&sums)[128], float (*rows)[256]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / 4, turn = row % 4;
  float* const first = &rows[static_cast<int>(threadIdx.x) % 128 / 32 * 16 + row][lane % 4 * 2];
  const auto exchange_if = [](bool really, float2& a, float2& b) {
    const float2 was = a;
    a = {really ? b.x : a.x, really ? b.y : a.y};
    b = {really ? was.x : b.x, really ? was.y : b.y};
  };
  const bool odd = (turn & 1) != 0, upper = (turn & 2) != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
      const auto at = [=](int i) { return reinterpret_cast<float2*>(first + 8 * half * 256 + 8 * j + 8 * (i ^ turn)); };
      float2 own[4], so_far[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        own[i] = {sums[4 * (j + i) + 2 * half], sums[4 * (j + i) + 2 * half + 1]};
        if constexpr (adds) so_far[i] = *at(i);
      }
      // Vector i of the four becomes vector i ^ turn.
      exchange_if(odd, own[0], own[1]), exchange_if(odd, own[2], own[3]);
      exchange_if(upper, own[0], own[2]), exchange_if(upper, own[1], own[3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) *at(i) = adds ? float2{so_far[i].x + own[i].x, so_far[i].y + own[i].y} : own[i];
    }
  }
}

}  // namespace pipetrain::cuda::hopper
