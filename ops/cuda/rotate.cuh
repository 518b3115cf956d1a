// The rotation of rotary embeddings (Su et al. 2021), with the same rounding wherever it is computed. Device code only.
#pragma once

#include <cuda_runtime.h>

namespace pipetrain::cuda {

// first cosine - second sine, second cosine + first sine
__device__ inline float2 rotated(float first, float second, float cosine, float sine) {
  return {__fmaf_rn(first, cosine, -__fmul_rn(second, sine)), __fmaf_rn(second, cosine, __fmul_rn(first, sine))};
}
__device__ inline double2 rotated(double first, double second, double cosine, double sine) {
  return {first * cosine - second * sine, second * cosine + first * sine};
}

}  // namespace pipetrain::cuda
