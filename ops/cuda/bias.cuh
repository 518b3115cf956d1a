// y = f(x + bias) for each element of a matrix [rows, cols], and the loads and stores of its kernel. Only for .cu files.
#pragma once

#include <string>

#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

constexpr int biased_threads = 128;
constexpr int biased_unroll = 2;  // packs a thread: loads of both are in flight together

// y may be x.
template <class T, int W, class F, class B = T>
__global__ void biased_kernel(const T* x, const B* bias, T* y, unsigned row_packs, std::int64_t packs, F f) {
  wait_for_previous();
  Pack<T, W> in[biased_unroll];
  Pack<B, W> add[biased_unroll];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * biased_threads * biased_unroll + threadIdx.x;
#pragma unroll
  for (int n = 0; n < biased_unroll; ++n) {
    const std::int64_t pack = first + n * biased_threads;
    if (pack >= packs) continue;
    in[n] = load<W>(x, pack);
    add[n] = load<W>(bias, static_cast<unsigned>(pack) % row_packs);
  }
#pragma unroll
  for (int n = 0; n < biased_unroll; ++n) {
    const std::int64_t pack = first + n * biased_threads;
    if (pack >= packs) break;
    Real<T> out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = f(static_cast<Real<T>>(in[n][i]) + add[n][i]);
    store(y, pack, out);
  }
}

// f<T> is the function for elements of type T. The bias has x's type, or x is f32.
template <template <class> class F>
void apply_biased(cudaStream_t stream, const char* what, const Tensor& x, const Tensor& bias, const Tensor& y) {
  if (x.elements() == 0) return;
  const bool aligned = aligned16(x.data) && aligned16(bias.data) && aligned16(y.data);
  with_types(x.dtype, bias.dtype, what, [&](auto t, auto b) {
    using T = typename decltype(t)::type;
    using B = typename decltype(b)::type;
    with_width<T>(aligned && x.cols() % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const std::int64_t packs = x.elements() / W;
      if (packs >= std::int64_t{1} << 32) {
        throw Error(ErrorKind::unavailable, std::string(what) + " on GPUs: too many tokens at once");
      }
      launch(stream, biased_kernel<T, W, F<T>, B>, blocks_for(packs, biased_threads * biased_unroll), biased_threads, 0,
             data_of<T>(x), data_of<B>(bias), data_of<T>(y), static_cast<unsigned>(x.cols() / W), packs, F<T>{});
    });
  });
}

}  // namespace pipetrain::cuda
