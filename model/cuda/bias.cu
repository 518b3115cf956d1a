#include "model/cuda/column_sums.cuh"
#include "model/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int unroll = 2;  // packs a thread: loads of both are in flight together

template <class T, int W>
__global__ void add_bias_kernel(T* x, const T* __restrict__ bias, unsigned row_packs, std::int64_t packs) {
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
    for (int i = 0; i < W; ++i) out[i] = in[n][i] + add[i];
    store(x, pack, out);
  }
}

template <class T, int W>
__global__ void __launch_bounds__(column_threads, 4)
    bias_grad_kernel(const T* __restrict__ dy, float* __restrict__ partial, std::int64_t rows, int cols, std::int64_t run) {
  constexpr int batch = 4;
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  const std::int64_t begin = blockIdx.y * run, end = begin + run < rows ? begin + run : rows;
  float sums[W] = {};
  if (pack < cols / W) {
    for (std::int64_t first = begin + threadIdx.y; first < end; first += batch * column_rows) {
      Pack<T, W> in[batch] = {};
#pragma unroll
      for (int n = 0; n < batch; ++n) {
        const std::int64_t row = first + n * column_rows;
        if (row < end) in[n] = load<W>(dy + row * cols, pack);
      }
#pragma unroll
      for (int n = 0; n < batch; ++n) {
#pragma unroll
        for (int i = 0; i < W; ++i) sums[i] += in[n][i];
      }
    }
  }
  write_partial(sums, partial, cols);
}

}  // namespace

void add_bias(cudaStream_t stream, const Tensor& x, const Tensor& bias) {
  if (x.elements() == 0) return;
  with_type(x.dtype, "add_bias", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(x.data) && aligned16(bias.data) && x.cols() % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const std::int64_t packs = x.elements() / W;
      if (packs >= std::int64_t{1} << 32) throw Error(ErrorKind::unavailable, "add_bias on GPUs: too many tokens at once");
      add_bias_kernel<T, W><<<blocks_for(packs, threads * unroll), threads, 0, stream>>>(
          data_of<T>(x), data_of<T>(bias), static_cast<unsigned>(x.cols() / W), packs);
    });
  });
}

std::size_t bias_grad_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return column_partials_bytes(rows, cols, multiprocessors);
}

void bias_grad(cudaStream_t stream, const Tensor& dy, const Tensor& dbias, int multiprocessors, void* scratch) {
  const std::int64_t rows = dy.rows(), cols = dy.cols();
  if (dy.elements() == 0) return;
  auto* partial = static_cast<float*>(scratch);
  with_type(dy.dtype, "bias_grad", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned16(dy.data) && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const ColumnGrid grid(rows, cols / W, multiprocessors);
      bias_grad_kernel<T, W>
          <<<grid.blocks, ColumnGrid::threads(), 0, stream>>>(data_of<T>(dy), partial, rows, static_cast<int>(cols), grid.run);
      add_partials(stream, partial, grid.runs, cols, data_of<float>(dbias));
    });
  });
}

}  // namespace pipetrain::cuda
