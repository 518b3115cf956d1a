#include "model/cuda/kernels.hpp"
#include "model/cuda/norm_launch.hpp"

namespace pipetrain::cuda {
namespace {

// One block a row; the row stays in registers between the two passes. N packs of W elements a thread.
template <class T, class TW, int W, int N>
__global__ void rms_norm_kernel(const T* __restrict__ x, const TW* __restrict__ weight, float eps, T* __restrict__ y,
                                float* __restrict__ inv_rms, int cols) {
  __shared__ float shared[1][32];
  const std::int64_t row = blockIdx.x;
  const int packs = cols / W;
  x += row * cols;
  y += row * cols;

  Pack<T, W> in[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) in[n] = load<W>(x, pack);
  }
  float squares[1] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < W; ++i) squares[0] += in[n][i] * in[n][i];
  }
  block_sums(squares, shared);
  const float inv = 1.0F / sqrtf(squares[0] / static_cast<float>(cols) + eps);
  if (threadIdx.x == 0) inv_rms[row] = inv;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack >= packs) break;
    const auto w = load<W>(weight, pack);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = in[n][i] * inv * w[i];
    store(y, pack, out);
  }
}

// Each block takes the rows blockIdx, blockIdx + gridDim, ..., two at a time so that enough loads are in flight, and keeps its
// columns' share of the weight's gradient in registers.
template <class T, class TW, int W, int N>
__global__ void __launch_bounds__(512, sizeof(T) == 2 && N == 1 ? 2 : 1)
    rms_norm_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x, const TW* __restrict__ weight,
                             const float* __restrict__ inv_rms, const T* residual, T* dx, float* __restrict__ partial,
                             std::int64_t rows, int cols) {
  constexpr int batch = N <= 2 ? 2 : 1;
  __shared__ float shared[2][batch][32];
  const int packs = cols / W;
  float dweight[N][W] = {};
  Pack<TW, W> w[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) w[n] = load<W>(weight, pack);
  }

  int parity = 0;
  for (std::int64_t first = blockIdx.x; first < rows; first += gridDim.x * batch, parity ^= 1) {
    Pack<T, W> in_dy[batch][N] = {}, in_x[batch][N] = {}, in_residual[batch][N] = {};
    float inv[batch] = {}, dot[batch] = {};  // dot: of x with dy * weight
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t row = first + b * gridDim.x;
      if (row >= rows) break;
      inv[b] = inv_rms[row];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = threadIdx.x + n * blockDim.x;
        if (pack >= packs) break;
        in_dy[b][n] = load<W>(dy + row * cols, pack);
        in_x[b][n] = load<W>(x + row * cols, pack);
        if (residual != nullptr) in_residual[b][n] = load<W>(residual + row * cols, pack);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < W; ++i) {
          dot[b] += in_dy[b][n][i] * w[n][i] * in_x[b][n][i];
          dweight[n][i] += in_dy[b][n][i] * in_x[b][n][i] * inv[b];
        }
      }
    }
    block_sums(dot, shared[parity]);
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t row = first + b * gridDim.x;
      if (row >= rows) break;
      const float pull = dot[b] * inv[b] * inv[b] * inv[b] / static_cast<float>(cols);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = threadIdx.x + n * blockDim.x;
        if (pack >= packs) break;
        forget(in_dy[b][n]);
        forget(in_x[b][n]);
        forget(w[n]);
        float out[W];
#pragma unroll
        for (int i = 0; i < W; ++i) out[i] = in_dy[b][n][i] * w[n][i] * inv[b] - in_x[b][n][i] * pull + in_residual[b][n][i];
        store(dx + row * cols, pack, out);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) store(partial + static_cast<std::int64_t>(blockIdx.x) * cols, pack, dweight[n]);
  }
}

int backward_blocks(std::int64_t rows, int multiprocessors) {
  return static_cast<int>(rows < 2 * multiprocessors ? rows : 2 * multiprocessors);
}

}  // namespace

void rms_norm(cudaStream_t stream, const Tensor& x, const Tensor& weight, float eps, const Tensor& y, const Tensor& inv_rms) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  if (rows == 0) return;
  const bool aligned = aligned16(x.data) && aligned16(y.data) && aligned16(weight.data);
  with_norm_types("rms_norm", x, weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    with_packs("rms_norm", cols / W, forward_packs(cols / W), 1024, [&](auto n, int threads) {
      rms_norm_kernel<T, TW, W, decltype(n)::value><<<static_cast<unsigned>(rows), threads, 0, stream>>>(
          data_of<T>(x), data_of<TW>(weight), eps, data_of<T>(y), data_of<float>(inv_rms), static_cast<int>(cols));
    });
  });
}

std::size_t rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return static_cast<std::size_t>(backward_blocks(rows, multiprocessors) * cols) * sizeof(float);
}

void rms_norm_backward(cudaStream_t stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& inv_rms,
                       const Tensor* residual, const Tensor& dx, const Tensor& dweight, int multiprocessors, void* scratch) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  if (rows == 0) return;
  const int blocks = backward_blocks(rows, multiprocessors);
  const bool aligned = aligned16(x.data) && aligned16(dy.data) && aligned16(dx.data) && aligned16(weight.data) &&
                       (residual == nullptr || aligned16(residual->data));
  auto* partial = static_cast<float*>(scratch);
  with_norm_types("rms_norm", x, weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    with_packs("rms_norm", cols / W, 1, 512, [&](auto n, int threads) {
      rms_norm_backward_kernel<T, TW, W, decltype(n)::value><<<blocks, threads, 0, stream>>>(
          data_of<T>(dy), data_of<T>(x), data_of<TW>(weight), data_of<float>(inv_rms),
          residual == nullptr ? nullptr : data_of<T>(*residual), data_of<T>(dx), partial, rows, static_cast<int>(cols));
    });
  });
  add_partials(stream, partial, blocks, cols, data_of<float>(dweight));
}

}  // namespace pipetrain::cuda
