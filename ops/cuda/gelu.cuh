// GELU in its tanh form (Hendrycks and Gimpel 2016) and its derivative. Device code only.
#pragma once

#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// gelu(x) = 0.5 x (1 + tanh(u)) = x sigmoid(2 u), for 2 u = x (linear + cubic x^2), linear = 2 sqrt(2 / pi), cubic = 0.044715
// linear.
template <class R>
constexpr R gelu_linear = static_cast<R>(1.5957691216057308);
template <class R>
constexpr R gelu_cubic = static_cast<R>(0.044715) * gelu_linear<R>;

// Returns gelu(x) / x.
template <class T>
__device__ Real<T> gelu_gate(Real<T> x) {
  using R = Real<T>;
  return sigmoid<T>(x * (gelu_linear<R> + gelu_cubic<R> * x * x));
}

template <class T>
__device__ Real<T> gelu_slope(Real<T> x) {
  using R = Real<T>;
  const R square = x * x, s = sigmoid<T>(x * (gelu_linear<R> + gelu_cubic<R> * square));
  return s + s * (1 - s) * (x * (gelu_linear<R> + 3 * gelu_cubic<R> * square));
}

}  // namespace pipetrain::cuda
