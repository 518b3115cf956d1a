#include "ops/cuda/bias.cuh"

#include "ops/cuda/column_sums.cuh"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

template <class T>
struct Identity {
  __device__ Real<T> operator()(Real<T> value) const { return value; }
};

constexpr int blocks_each = 4;  // blocks a multiprocessor

template <class T, int W>
__global__ void __launch_bounds__(column_threads, blocks_each)
    bias_grad_kernel(const T* dy, float* partial, std::int64_t rows, int cols, std::int64_t rows_each) {
  constexpr int batch = 4;
  wait_for_previous();
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  Real<T> sums[W] = {};
  if (pack < cols / W) {
    Pack<T, W> in[batch];
    for_rows_of_block<batch>(
        rows, rows_each, [&](int n, std::int64_t row) { in[n] = load<W>(dy + row * cols, pack); },
        [&](int n, std::int64_t) {
#pragma unroll
          for (int i = 0; i < W; ++i) sums[i] += in[n][i];
        });
  }
  write_partial(sums, partial, cols);
}

}  // namespace

void add_bias(cudaStream_t stream, const Tensor& x, const Tensor& bias) {
  apply_biased<Identity>(stream, "add_bias", x, bias, x);
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
      const ColumnGrid grid(rows, cols / W, multiprocessors, blocks_each);
      launch(stream, bias_grad_kernel<T, W>, grid.blocks, ColumnGrid::threads(), 0, data_of<T>(dy), partial, rows,
             static_cast<int>(cols), grid.rows_each);
      add_partials(stream, partial, grid.ranges, cols, {data_of<float>(dbias)});
    });
  });
}

}  // namespace pipetrain::cuda
