#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.hpp"
#include "model/cuda/vector.cuh"

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

// dweight += the blocks' shares, in an order that depends on their number only. 32 columns a block.
__global__ void add_partials_kernel(const float* __restrict__ partial, int blocks, int cols, float* __restrict__ dweight) {
  __shared__ double shared[32][33];
  const int col = blockIdx.x * 32 + threadIdx.x;
  double sum = 0;
  if (col < cols) {
    for (int block = threadIdx.y; block < blocks; block += 32) sum += partial[static_cast<std::int64_t>(block) * cols + col];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = shared[threadIdx.x][threadIdx.y];  // one of the 32 sums of column threadIdx.y
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const int own = blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x == 0 && own < cols) dweight[own] = static_cast<float>(dweight[own] + sum);
}

int round_to_warps(std::int64_t threads) { return static_cast<int>(ceil_div<std::int64_t>(threads, 32) * 32); }

// Calls body(Constant<N>, threads): the fewest packs N a thread, at least `wanted`, so that at most `limit` threads make a row.
template <class Body>
void with_packs(std::int64_t packs, int wanted, int limit, Body body) {
  const auto fits = [&](int n) { return n >= wanted && ceil_div<std::int64_t>(packs, n) <= limit; };
  const auto threads = [&](int n) { return round_to_warps(ceil_div<std::int64_t>(packs, n)); };
  if (fits(1)) return body(Constant<1>{}, threads(1));
  if (fits(2)) return body(Constant<2>{}, threads(2));
  if (fits(4)) return body(Constant<4>{}, threads(4));
  if (fits(8)) return body(Constant<8>{}, threads(8));
  throw Error(ErrorKind::unavailable, "RMSNorm on GPUs: the hidden size is too large; a multiple of 8 up to 32768 works");
}

// Calls body(T, TW, W) for these types.
template <class Body>
void with_norm_types(const Tensor& x, const Tensor& weight, bool aligned, Body body) {
  with_type(x.dtype, "rms_norm", [&](auto t) {
    with_type(weight.dtype, "rms_norm's weight", [&](auto tw) {
      using T = typename decltype(t)::type;
      with_width<T>(aligned && x.cols() % full_width<T> == 0, [&](auto w) { body(t, tw, w); });
    });
  });
}

int backward_blocks(std::int64_t rows, int multiprocessors) {
  return static_cast<int>(rows < 2 * multiprocessors ? rows : 2 * multiprocessors);
}

}  // namespace

void rms_norm(cudaStream_t stream, const Tensor& x, const Tensor& weight, float eps, const Tensor& y, const Tensor& inv_rms) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  if (rows == 0) return;
  const bool aligned = aligned16(x.data) && aligned16(y.data) && aligned16(weight.data);
  with_norm_types(x, weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    const std::int64_t packs = cols / W;
    with_packs(packs,
               packs >= 256   ? 4
               : packs >= 128 ? 2
                              : 1,
               1024, [&](auto n, int threads) {
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
  with_norm_types(x, weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    with_packs(cols / W, 1, 512, [&](auto n, int threads) {
      rms_norm_backward_kernel<T, TW, W, decltype(n)::value><<<blocks, threads, 0, stream>>>(
          data_of<T>(dy), data_of<T>(x), data_of<TW>(weight), data_of<float>(inv_rms),
          residual == nullptr ? nullptr : data_of<T>(*residual), data_of<T>(dx), partial, rows, static_cast<int>(cols));
    });
  });
  add_partials_kernel<<<blocks_for(cols, 32), dim3(32, 32), 0, stream>>>(partial, blocks, static_cast<int>(cols),
                                                                         data_of<float>(dweight));
}

}  // namespace pipetrain::cuda
