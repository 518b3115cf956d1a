#include "ops/cuda/bias.cuh"
#include "ops/cuda/column_sums.cuh"
#include "ops/cuda/gelu.cuh"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

template <class T>
struct Gelu {
  __device__ Real<T> operator()(Real<T> x) const { return x * gelu_gate<T>(x); }
};

// Divided like column sums, because it computes the bias's gradient in the same pass.
template <class T, int W>
__global__ void __launch_bounds__(column_threads, most_column_blocks)
    gelu_backward_kernel(const T* dy, const T* x, const T* bias, T* dx, float* partial, std::int64_t rows, int cols,
                         std::int64_t rows_each) {
  wait_for_previous();
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  Real<T> sums[W] = {};
  if (pack < cols / W) {
    auto add = load<W>(bias, pack);
    Pack<T, W> in_dy, in_x;
    for_rows_of_block<1>(
        rows, rows_each,
        [&](int, std::int64_t row) {
          in_dy = load<W>(dy + row * cols, pack);
          in_x = load<W>(x + row * cols, pack);
        },
        [&](int, std::int64_t row) {
          forget(add);
          Real<T> out[W];
#pragma unroll
          for (int i = 0; i < W; ++i) {
            out[i] = in_dy[i] * gelu_slope<T>(static_cast<Real<T>>(in_x[i]) + add[i]);
            sums[i] += out[i];
          }
          store(dx + row * cols, pack, out);
        });
  }
  write_partial(sums, partial, cols);
}

}  // namespace

void gelu(cudaStream_t stream, const Tensor& x, const Tensor& bias, const Tensor& y) {
  apply_biased<Gelu>(stream, "gelu", x, bias, y);
}

void gelu_backward(cudaStream_t stream, const GeluBackwardArgs& args, int multiprocessors, void* scratch) {
  const std::int64_t rows = args.x.rows(), cols = args.x.cols();
  if (args.x.elements() == 0) return;
  const bool aligned =
      aligned16(args.dy.data) && aligned16(args.x.data) && aligned16(args.bias.data) && aligned16(args.dx.data);
  auto* partial = static_cast<float*>(scratch);
  with_type(args.x.dtype, "gelu_backward", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && cols % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      const ColumnGrid grid(rows, cols / W, multiprocessors, most_column_blocks);
      launch(stream, gelu_backward_kernel<T, W>, grid.blocks, ColumnGrid::threads(), 0, data_of<T>(args.dy), data_of<T>(args.x),
             data_of<T>(args.bias), data_of<T>(args.dx), partial, rows, static_cast<int>(cols), grid.rows_each);
      add_partials(stream, partial, grid.ranges, cols, {data_of<float>(args.dbias)});
    });
  });
}

}  // namespace pipetrain::cuda
