#include "model/cuda/kernels.hpp"
#include "model/cuda/norm_launch.hpp"

namespace pipetrain::cuda {
namespace {

// One block a row; the row stays in registers between the passes. N packs of W elements a thread. The variance comes from the
// distances to the mean: the difference of two large sums would lose it.
template <class T, class TW, int W, int N>
__global__ void layer_norm_kernel(const T* __restrict__ x, const TW* __restrict__ weight, const TW* __restrict__ bias,
                                  float eps, T* __restrict__ y, float* __restrict__ mean, float* __restrict__ inv_std,
                                  int cols) {
  __shared__ float shared[2][1][32];
  const std::int64_t row = blockIdx.x;
  const int packs = cols / W;
  x += row * cols;
  y += row * cols;

  Pack<T, W> in[N] = {};
  float sum[1] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) in[n] = load<W>(x, pack);
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < W; ++i) sum[0] += in[n][i];
  }
  block_sums(sum, shared[0]);
  const float center = sum[0] / static_cast<float>(cols);
  float squares[1] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack >= packs) break;
#pragma unroll
    for (int i = 0; i < W; ++i) squares[0] += (in[n][i] - center) * (in[n][i] - center);
  }
  block_sums(squares, shared[1]);
  const float inv = 1.0F / sqrtf(squares[0] / static_cast<float>(cols) + eps);
  if (threadIdx.x == 0) {
    mean[row] = center;
    inv_std[row] = inv;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack >= packs) break;
    const auto w = load<W>(weight, pack), b = load<W>(bias, pack);
    float out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = (in[n][i] - center) * inv * w[i] + b[i];
    store(y, pack, out);
  }
}

// As RMSNorm's: each block takes the rows blockIdx, blockIdx + gridDim, ..., and keeps its columns' share of the gradients of
// weight and bias in registers. With g = dy * weight and n = (x - mean) s: dx = s (g - mean(g) - n mean(g n)), s = inv_std.
template <class T, class TW, int W, int N>
__global__ void __launch_bounds__(512, 1)
    layer_norm_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x, const TW* __restrict__ weight,
                               const float* __restrict__ mean, const float* __restrict__ inv_std, const T* residual, T* dx,
                               float* __restrict__ partial, std::int64_t rows, int cols) {
  constexpr int batch = N == 1 ? 2 : 1;  // rows at a time, so that enough loads are in flight
  __shared__ float shared[2][2 * batch][32];
  const int packs = cols / W;
  float dweight[N][W] = {}, dbias[N][W] = {};
  Pack<TW, W> w[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) w[n] = load<W>(weight, pack);
  }

  int parity = 0;
  for (std::int64_t first = blockIdx.x; first < rows; first += gridDim.x * batch, parity ^= 1) {
    Pack<T, W> in_dy[batch][N] = {}, in_x[batch][N] = {}, in_residual[batch][N] = {};
    float center[batch] = {}, inv[batch] = {}, sums[2 * batch] = {};  // sums: of g, and of g n
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t row = first + b * gridDim.x;
      if (row >= rows) break;
      center[b] = mean[row];
      inv[b] = inv_std[row];
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
          const float normal = (in_x[b][n][i] - center[b]) * inv[b], grad = in_dy[b][n][i] * w[n][i];
          sums[2 * b] += grad;
          sums[2 * b + 1] += grad * normal;
          dweight[n][i] += in_dy[b][n][i] * normal;
          dbias[n][i] += in_dy[b][n][i];
        }
      }
    }
    block_sums(sums, shared[parity]);
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t row = first + b * gridDim.x;
      if (row >= rows) break;
      const float level = sums[2 * b] / static_cast<float>(cols), slope = sums[2 * b + 1] / static_cast<float>(cols);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = threadIdx.x + n * blockDim.x;
        if (pack >= packs) break;
        forget(in_dy[b][n]);
        forget(in_x[b][n]);
        forget(w[n]);
        float out[W];
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const float normal = (in_x[b][n][i] - center[b]) * inv[b];
          out[i] = (in_dy[b][n][i] * w[n][i] - level - normal * slope) * inv[b] + in_residual[b][n][i];
        }
        store(dx + row * cols, pack, out);
      }
    }
  }
  float* const own = partial + static_cast<std::int64_t>(blockIdx.x) * 2 * cols;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack >= packs) break;
    store(own, pack, dweight[n]);
    store(own + cols, pack, dbias[n]);
  }
}

// Narrow rows take few threads: more blocks, or too few loads are in flight.
int backward_blocks(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  const std::int64_t most = (cols <= 2048 ? 4 : 2) * multiprocessors;
  return static_cast<int>(rows < most ? rows : most);
}

}  // namespace

void layer_norm(cudaStream_t stream, const Tensor& x, const Tensor& weight, const Tensor& bias, float eps, const Tensor& y,
                const Tensor& mean, const Tensor& inv_std) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  if (rows == 0) return;
  const bool aligned = aligned16(x.data) && aligned16(y.data) && aligned16(weight.data) && aligned16(bias.data);
  with_norm_types("layer_norm", x, weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    with_packs("layer_norm", cols / W, forward_packs(cols / W), 1024, [&](auto n, int threads) {
      layer_norm_kernel<T, TW, W, decltype(n)::value><<<static_cast<unsigned>(rows), threads, 0, stream>>>(
          data_of<T>(x), data_of<TW>(weight), data_of<TW>(bias), eps, data_of<T>(y), data_of<float>(mean),
          data_of<float>(inv_std), static_cast<int>(cols));
    });
  });
}

std::size_t layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return static_cast<std::size_t>(backward_blocks(rows, cols, multiprocessors) * 2 * cols) * sizeof(float);
}

void layer_norm_backward(cudaStream_t stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& inv_std, const Tensor* residual, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias, int multiprocessors, void* scratch) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  if (rows == 0) return;
  const int blocks = backward_blocks(rows, cols, multiprocessors);
  const bool aligned = aligned16(x.data) && aligned16(dy.data) && aligned16(dx.data) && aligned16(weight.data) &&
                       (residual == nullptr || aligned16(residual->data));
  auto* partial = static_cast<float*>(scratch);
  with_norm_types("layer_norm_backward", x, weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    with_packs("layer_norm_backward", cols / W, 1, 512, [&](auto n, int threads) {
      layer_norm_backward_kernel<T, TW, W, decltype(n)::value><<<blocks, threads, 0, stream>>>(
          data_of<T>(dy), data_of<T>(x), data_of<TW>(weight), data_of<float>(mean), data_of<float>(inv_std),
          residual == nullptr ? nullptr : data_of<T>(*residual), data_of<T>(dx), partial, rows, static_cast<int>(cols));
    });
  });
  add_partials(stream, partial, blocks, cols, data_of<float>(dweight), data_of<float>(dbias));
}

}  // namespace pipetrain::cuda
