// Sums of exponentials of a row of 16-bit logits, in one order wherever they are computed: a row consists of ranges, and a
// range of chunks; each thread of a block processes a chunk's packs with a fixed stride. Only for .cu files.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "ops/cuda/hopper/bulk_copy.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda::hopper {

namespace loss {
inline constexpr int threads = 256, warps = threads / 32, width = 8;  // a pack is 16 bytes of logits
inline constexpr int unroll = 4;                                      // packs of a thread in flight together
inline constexpr int chunk_packs = threads * unroll, pack_bytes = 16;
inline constexpr int most_chunks = 4;    // in a range: 64 KiB, so that a multiprocessor holds three
inline constexpr int most_ranges = 8;    // ranges in a row
inline constexpr int together = 3;       // blocks on a multiprocessor: while some wait, others compute
inline constexpr float lowest = -1e30F;  // as in cross_entropy.cu
}  // namespace loss

template <class T>
struct LogitRows {
  T* logits;
  int rows, stride;  // elements
  const int* targets;
  std::int64_t first_id;
  int cols;    // the columns that count
  int ranges;  // ranges in a row
  LossSums found;
  float scale;

  __device__ __forceinline__ int packs() const { return stride / loss::width; }
  __device__ __forceinline__ int packs_of_range() const { return (packs() + ranges - 1) / ranges; }  // the last may have fewer
  // Returns a number below 0 if another rank has the target or the row does not count.
  __device__ __forceinline__ int target_col(int target) const {
    const std::int64_t col = target >= 0 ? target - first_id : -1;
    return col >= 0 && col < cols ? static_cast<int>(col) : -1;
  }
};

struct LogitSum {
  float top, total;  // the sum of exp(logit - top)
  // Rounds as loss_kernel() does.
  __device__ float log_sum() const { return static_cast<float>(top + log(static_cast<double>(total))); }
};

template <class T>
__device__ __forceinline__ float difference_exponential(float logit, float top) {
  return exponential<T>(logit - top);
}

template <class T>
__device__ __forceinline__ float largest_of(const Pack<T, loss::width>& logits) {
  using Pair = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;
  const auto* const pairs = reinterpret_cast<const Pair*>(&logits);
  const Pair most = __hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3]));
  return max(to_float(most.x), to_float(most.y));
}

// Adds a thread's share of a chunk of this many packs, of which the first `cols` columns count; the others are
// minus infinity. The sum is rescaled to each larger top (Milakov and Gimelshein 2018).
template <class T>
__device__ __forceinline__ void add_chunk(LogitSum& sum, const Pack<T, loss::width>* chunk, int packs, int counted) {
  using namespace loss;
  const int first = static_cast<int>(threadIdx.x);
  Pack<T, width> in[unroll];
  const float before = sum.top;
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const int pack = first + n * threads;
    if (pack >= packs) break;
    in[n] = chunk[pack];
    if (counted < (pack + 1) * width) {
#pragma unroll
      for (int i = 0; i < width; ++i)
        if (pack * width + i >= counted) in[n].at[i] = from_float<T>(-INFINITY);
    }
    sum.top = max(sum.top, largest_of(in[n]));
  }
  // Products are rounded before they are added, so that all kernels give the same bits.
  sum.total = __fmul_rn(sum.total, difference_exponential<T>(before, sum.top));
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    if (first + n * threads >= packs) break;
    forget(in[n]);
#pragma unroll
    for (int i = 0; i < width; ++i) sum.total += difference_exponential<T>(in[n][i], sum.top);
  }
}

template <class T>
__device__ __forceinline__ LogitSum sum_of_warp(LogitSum sum) {
  float top = sum.top;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) top = max(top, __shfl_xor_sync(~0U, top, step));
  return {top, warp_sum(__fmul_rn(sum.total, difference_exponential<T>(sum.top, top)))};
}

// Adds the ranges' sums in order.
template <class T>
__device__ __forceinline__ LogitSum sum_of_row(const float2* of_ranges, int ranges) {
  LogitSum row{loss::lowest, 0};
  for (int range = 0; range < ranges; ++range) row.top = max(row.top, of_ranges[range].x);
  for (int range = 0; range < ranges; ++range)
    row.total += __fmul_rn(of_ranges[range].y, difference_exponential<T>(of_ranges[range].x, row.top));
  return row;
}

// Writes all.found; leaves the logits unchanged.
template <class T>
void sum_rows(cudaStream_t stream, const LogitRows<T>& all);

}  // namespace pipetrain::cuda::hopper
