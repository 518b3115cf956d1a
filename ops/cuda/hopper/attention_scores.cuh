// Steps of the softmax's backward on the scores S^T, P^T and dP^T [keys, queries] of a group of warps, in the layout of a
// product's sums (wgmma.cuh). `col` is a thread's first query. Only for .cu files.
#pragma once

#include <cstdint>

#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda::hopper {

// Turns scores into probabilities. sums: log2 of the softmax's sum for the queries from `col` on; factor: the scale, times
// log2(e).
template <int n>
__device__ __forceinline__ void softmax(float (&p)[n], const float* sums, float factor) {
#pragma unroll
  for (int j = 0; j < n; j += 4) {
    const float2 sum = *reinterpret_cast<const float2*>(sums + 2 * j);
    p[j] = power_of_two(fmaf(p[j], factor, -sum.x)), p[j + 1] = power_of_two(fmaf(p[j + 1], factor, -sum.y));
    p[j + 2] = power_of_two(fmaf(p[j + 2], factor, -sum.x)), p[j + 3] = power_of_two(fmaf(p[j + 3], factor, -sum.y));
  }
}

// Clears the probabilities of the queries before the key, of which there are `ahead` from `col` on.
template <int n>
__device__ __forceinline__ void clear_before(float (&p)[n], int ahead) {
#pragma unroll
  for (int i = 0; i < n; ++i)
    if (2 * (i / 4 * 4) + i % 2 < ahead + 8 * (i / 2 % 2)) p[i] = 0;
}

// Clears those of the queries that see no key before `begins`, for the queries from `col` on.
template <int n>
__device__ __forceinline__ void clear_before_begin(float (&p)[n], const int* begins, int key) {
#pragma unroll
  for (int j = 0; j < n; j += 4) {
    const int2 first = *reinterpret_cast<const int2*>(begins + 2 * j);
    if (key < first.x) p[j] = 0;
    if (key < first.y) p[j + 1] = 0;
    if (key + 8 < first.x) p[j + 2] = 0;
    if (key + 8 < first.y) p[j + 3] = 0;
  }
}

// The scores rounded to 16 bits, as the left factor of a product that sums over n * 2 queries, 16 at a time.
template <int n>
using RoundedScores = std::uint32_t[n / 8][4];

template <class Element, int n>
__device__ __forceinline__ void round_to(RoundedScores<n>& out, const float (&p)[n]) {
#pragma unroll
  for (int i = 0; i < n; i += 2) out[i / 8][i % 8 / 2] = pack<Element>(p[i], p[i + 1]);
}

// dS = P (dP - delta); deltas: those of the queries from `col` on.
template <class Element, int n>
__device__ __forceinline__ void multiply_differences(RoundedScores<n>& out, const float (&p)[n], const float (&dp)[n],
                                                     const float* deltas) {
#pragma unroll
  for (int j = 0; j < n; j += 4) {
    const float2 d = *reinterpret_cast<const float2*>(deltas + 2 * j);
    out[j / 8][j % 8 / 2] = pack<Element>(p[j] * (dp[j] - d.x), p[j + 1] * (dp[j + 1] - d.y));
    out[j / 8][j % 8 / 2 + 1] = pack<Element>(p[j + 2] * (dp[j + 2] - d.x), p[j + 3] * (dp[j + 3] - d.y));
  }
}

// The same in place: P becomes dS, where registers do not hold both.
template <class Element, int n>
__device__ __forceinline__ void multiply_by_differences(RoundedScores<n>& rounded, const float (&dp)[n], const float* deltas) {
#pragma unroll
  for (int j = 0; j < n; j += 4) {
    const float2 d = *reinterpret_cast<const float2*>(deltas + 2 * j);
    std::uint32_t &upper = rounded[j / 8][j % 8 / 2], &lower = rounded[j / 8][j % 8 / 2 + 1];
    const float2 above = unpack<Element>(upper), below = unpack<Element>(lower);
    upper = pack<Element>(above.x * (dp[j] - d.x), above.y * (dp[j + 1] - d.y));
    lower = pack<Element>(below.x * (dp[j + 2] - d.x), below.y * (dp[j + 3] - d.y));
  }
}

}  // namespace pipetrain::cuda::hopper
