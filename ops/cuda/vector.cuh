// Helpers of kernels: their first statement, and several elements read and written at once as fp32 in
// registers. Device code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace pipetrain::cuda {

using bf16 = __nv_bfloat16;
using half = __half;

// The first statement of every kernel that launch() of launch.hpp starts. Its blocks may start while the
// previous kernel in the stream still runs; the statements after it see all that the previous kernel wrote, and
// may overwrite what it read. Pointers of such a kernel must not be __restrict__: the compiler could move reads
// of memory that never changes in front of the wait.
__device__ inline void wait_for_previous() { cudaGridDependencySynchronize(); }

template <class T>
constexpr int full_width = 16 / static_cast<int>(sizeof(T));  // elements of the widest access of one thread

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(bf16 value) { return __bfloat162float(value); }
__device__ inline float to_float(half value) { return __half2float(value); }

template <class T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline bf16 from_float<bf16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline half from_float<half>(float value) {
  return __float2half_rn(value);
}

// Converts two in one instruction.
__device__ inline void from_floats(float first, float second, bf16* at) {
  const auto pair = __floats2bfloat162_rn(first, second);
  at[0] = pair.x, at[1] = pair.y;
}
__device__ inline void from_floats(float first, float second, half* at) {
  const auto pair = __floats2half2_rn(first, second);
  at[0] = pair.x, at[1] = pair.y;
}

// Returns two adjacent elements as the word that holds them in memory, the first in its low half.
template <class T>
__device__ inline std::uint32_t pack(float first, float second) {
  alignas(4) T pair[2];
  from_floats(first, second, pair);
  return *reinterpret_cast<const std::uint32_t*>(pair);
}
template <class T>
__device__ inline float2 unpack(std::uint32_t word) {
  const T* const pair = reinterpret_cast<const T*>(&word);
  return {to_float(pair[0]), to_float(pair[1])};
}

// The type in which operations on elements of type T compute, so that rounding the result is nearly their whole
// error: fp32 runs are for checks, and the first steps of Adam magnify rounding.
template <class T>
using Real = std::conditional_t<sizeof(T) == 2, float, double>;

constexpr float log2_e = 1.4426950408889634F;

// Uses one instruction, with a relative error of 2^-22.
__device__ inline float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

// Uses two instructions for 16-bit types: a relative error of 2^-21 near 0, far below their rounding. fp32 uses
// the exact function.
template <class T>
__device__ Real<T> exponential(Real<T> value) {
  if constexpr (sizeof(T) == 2) {
    return power_of_two(value * log2_e);
  } else {
    return exp(value);
  }
}

template <class T>
__device__ Real<T> sigmoid(Real<T> value) {
  const Real<T> inverse = 1 + exponential<T>(-value);
  if constexpr (sizeof(T) == 2) {
    float quotient;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(inverse));
    return quotient;
  } else {
    return 1 / inverse;
  }
}

// W adjacent elements as they are in memory: the cheapest form to hold in registers. Pointers must be aligned to W elements.
template <class T, int W>
struct alignas(sizeof(T) * W <= 16 ? sizeof(T) * W : 16) Pack {
  T at[W];

  __device__ float operator[](int i) const { return to_float(at[i]); }
};

template <int W, class T>
__device__ Pack<T, W> load(const T* data, std::int64_t pack) {
  return reinterpret_cast<const Pack<T, W>*>(data)[pack];
}

// Hides the values of these registers from the compiler, so that it converts them again instead of keeping the
// fp32 values alive. For code with few free registers.
template <class T, int W>
__device__ void forget(Pack<T, W>& pack) {
  static_assert(sizeof(pack) % 4 == 0 || W == 1);
  if constexpr (W > 1) {
    auto* words = reinterpret_cast<unsigned*>(&pack);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(pack) / 4); ++i) asm volatile("" : "+r"(words[i]));
  }
}

// R: float, or double for T = float.
template <int W, class T, class R>
__device__ void store(T* data, std::int64_t pack, const R (&values)[W]) {
  Pack<T, W> packed;
  if constexpr (sizeof(T) == 2 && W % 2 == 0) {
#pragma unroll
    for (int i = 0; i < W; i += 2) from_floats(values[i], values[i + 1], packed.at + i);
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) packed.at[i] = from_float<T>(static_cast<float>(values[i]));
  }
  reinterpret_cast<Pack<T, W>*>(data)[pack] = packed;
}

// Returns the bits of |value|, which are ordered as magnitudes are, with NaN above infinity: an integer maximum
// of them is exact in any order and keeps NaN.
__device__ inline unsigned magnitude(float value) { return __float_as_uint(value) & 0x7fffffffU; }
__device__ inline unsigned magnitude(double value) { return magnitude(static_cast<float>(value)); }

// Raises *largest to the largest of the warp's magnitudes, as T rounds it. All threads of the warp must call it.
template <class T>
__device__ void raise_by_warp(unsigned* largest, unsigned found) {
  found = __reduce_max_sync(0xffffffffU, found);
  if (threadIdx.x % 32 != 0) return;
  const unsigned rounded = magnitude(to_float(from_float<T>(__uint_as_float(found))));
  if (rounded > *static_cast<volatile unsigned*>(largest)) atomicMax(largest, rounded);
}

// Does the same by one access of the whole block, whose threads must all call it; blockDim.y is 1.
template <class T>
__device__ void raise_by_block(unsigned* largest, unsigned found) {
  __shared__ unsigned of_warps[32];
  found = __reduce_max_sync(0xffffffffU, found);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = found;
  __syncthreads();
  if (threadIdx.x < 32) raise_by_warp<T>(largest, threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0U);
}

template <class R>
__device__ R warp_sum(R value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

}  // namespace pipetrain::cuda
