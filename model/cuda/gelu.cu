#include "model/cuda/column_sums.cuh"
#include "model/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int unroll = 2;  // packs a thread: loads of both are in flight together

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u), for u = sqrt(2 / pi) (x + 0.044715 x^3).
constexpr float twice_sqrt_2_over_pi = 1.5957691216057308F;
constexpr float cubic = 0.044715F;

template <class T>
__device__ float gate(float x) {
  return sigmoid<T>(twice_sqrt_2_over_pi * x * (1.0F + cubic * x * x));
}

template <class T, int W>
__global__ void gelu_kernel(const T* __restrict__ x, const T* __restrict__ bias, T* __restrict__ y, unsigned row_packs,
                            std::int64_t packs) {
  Pack<T, W> in[unroll];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * unroll + threadIdx.x;
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack < packs) in[n] = load<W>(x, pack);
  }
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const std::int64_t pack = first + n * threads;
    if (pack >= packs) continue;
    const auto add = load<W>(bias, static_cast<unsigned>(pack) % row_packs);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float value = in[n][i] + add[i];
      out[i] = value * gate<T>(value);
    }
    store(y, pack, out);
  }
}

// Cut as for sums down columns, because it makes the bias's gradient on its way.
template <class T, int W>
__global__ void __launch_bounds__(column_threads, 4)
    gelu_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x, const T* __restrict__ bias, T* __restrict__ dx,
                         float* __restrict__ partial, std::int64_t rows, int cols, std::int64_t run) {
  constexpr int batch = 2;
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  const std::int64_t begin = blockIdx.y * run, end = begin + run < rows ? begin + run : rows;
  float sums[W] = {};
  if (pack < cols / W) {
    const auto add = load<W>(bias, pack);
    for (std::int64_t first = begin + threadIdx.y; first < end; first += batch * column_rows) {
      Pack<T, W> in_dy[batch], in_x[batch];
#pragma unroll
      for (int n = 0; n < batch; ++n) {
        const std::int64_t row = first + n * column_rows;
        if (row >= end) break;
        in_dy[n] = load<W>(dy + row * cols, pack);
        in_x[n] = load<W>(x + row * cols, pack);
      }
#pragma unroll
      for (int n = 0; n < batch; ++n) {
        const std::int64_t row = first + n * column_rows;
        if (row >= end) break;
        float out[W];
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const float value = in_x[n][i] + add[i], s = gate<T>(value);
          const float slope = twice_sqrt_2_over_pi * (1.0F + 3.0F * cubic * value * value);
          out[i] = in_dy[n][i] * (s + value * s * (1.0F - s) * slope);
          sums[i] += out[i];
        }
        store(dx + row * cols, pack, out);
      }
    }
  }
  write_partial(sums, partial, cols);
}

}  // namespace

void gelu(cudaStream_t stream, const Tensor& x, const Tensor& bias, const Tensor& y) {
  if (x.elements() == 0) return;
  const bool aligned = aligned16(x.data) && aligned16(bias.data) && aligned16(y.data);
  with_type(x.dtype, "gelu", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && x.cols() % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const std::int64_t packs = x.elements() / W;
      if (packs >= std::int64_t{1} << 32) throw Error(ErrorKind::unavailable, "gelu on GPUs: too many tokens at once");
      gelu_kernel<T, W><<<blocks_for(packs, threads * unroll), threads, 0, stream>>>(
          data_of<T>(x), data_of<T>(bias), data_of<T>(y), static_cast<unsigned>(x.cols() / W), packs);
    });
  });
}

void gelu_backward(cudaStream_t stream, const Tensor& dy, const Tensor& x, const Tensor& bias, const Tensor& dx,
                   const Tensor& dbias, int multiprocessors, void* scratch) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  if (x.elements() == 0) return;
  const bool aligned = aligned16(dy.data) && aligned16(x.data) && aligned16(bias.data) && aligned16(dx.data);
  auto* partial = static_cast<float*>(scratch);
  with_type(x.dtype, "gelu_backward", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const ColumnGrid grid(rows, cols / W, multiprocessors);
      gelu_backward_kernel<T, W><<<grid.blocks, ColumnGrid::threads(), 0, stream>>>(
          data_of<T>(dy), data_of<T>(x), data_of<T>(bias), data_of<T>(dx), partial, rows, static_cast<int>(cols), grid.run);
      add_partials(stream, partial, grid.runs, cols, data_of<float>(dbias));
    });
  });
}

}  // namespace pipetrain::cuda
