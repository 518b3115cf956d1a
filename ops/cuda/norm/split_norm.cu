// An RMSNorm whose rows several ranks hold in parts.
#include "ops/cuda/block_order.cuh"
#include "ops/cuda/column_sums.cuh"
#include "ops/cuda/norm/norm.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int block_rows = 8;  // rows of a block; one warp handles a row

// weight: null where there is none.
template <class T, class TW, int W>
__global__ void __launch_bounds__(32 * block_rows)
    row_dots_kernel(const T* a, const T* b, const TW* weight, float* sums, std::int64_t rows, int cols) {
  using R = Real<T>;
  wait_for_previous();
  const std::int64_t row = static_cast<std::int64_t>(block_from_end()) * block_rows + threadIdx.y;
  if (row >= rows) return;
  R sum = 0;
  for (int pack = threadIdx.x; pack < cols / W; pack += 32) {
    const auto first = load<W>(a + row * cols, pack), second = load<W>(b + row * cols, pack);
    Pack<TW, W> factor;
    if (weight != nullptr) factor = load<W>(weight, pack);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const R product = static_cast<R>(first[i]) * second[i];
      sum += weight == nullptr ? product : product * factor[i];
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) sums[row] = static_cast<float>(sum);
}

// The sums of a row over the columns of all ranks.
struct RowSums {
  const float* of_rows;  // [R]
  std::int64_t columns;  // of all ranks
};

template <class T, class TW, int W>
__global__ void __launch_bounds__(32 * block_rows) split_norm_kernel(const T* x, const TW* weight, RowSums squares, float eps,
                                                                     T* y, float* inv_rms, std::int64_t rows, int cols) {
  using R = Real<T>;
  wait_for_previous();
  const std::int64_t row = static_cast<std::int64_t>(block_from_end()) * block_rows + threadIdx.y;
  if (row >= rows) return;
  const R inv = 1 / sqrt(static_cast<R>(squares.of_rows[row]) / static_cast<R>(squares.columns) + eps);
  if (threadIdx.x == 0) inv_rms[row] = static_cast<float>(inv);
  for (int pack = threadIdx.x; pack < cols / W; pack += 32) {
    const auto in = load<W>(x + row * cols, pack);
    const auto gain = load<W>(weight, pack);
    R out[W];
#pragma unroll
    for (int i = 0; i < W; ++i) out[i] = in[i] * inv * gain[i];
    store(y + row * cols, pack, out);
  }
}

// dy, x and dx: [rows, cols]; dx may be x's memory.
template <class T>
struct SplitNormGradient {
  const T *dy, *x;
  const float* inv_rms;
  RowSums dots;
  T* dx;
};

constexpr int gradient_blocks = 3;  // blocks a multiprocessor

// With s = inv_rms: dx = s dy weight - x s^3 / columns dots; partial [ranges, cols] gets the sums of dy x s.
template <class T, class TW, int W>
__global__ void __launch_bounds__(column_threads, gradient_blocks)
    split_norm_backward_kernel(SplitNormGradient<T> of, const TW* weight, float* partial, std::int64_t rows, int cols,
                               std::int64_t rows_each) {
  using R = Real<T>;
  constexpr int batch = 2;
  wait_for_previous();
  const int pack = blockIdx.x * column_packs + threadIdx.x;
  R sums[W] = {};
  if (pack < cols / W) {
    const auto gain = load<W>(weight, pack);
    Pack<T, W> dy[batch], x[batch];
    R inv[batch], dots[batch];
    const auto read = [&](int n, std::int64_t row) {
      dy[n] = load<W>(of.dy + row * cols, pack), x[n] = load<W>(of.x + row * cols, pack);
      inv[n] = of.inv_rms[row], dots[n] = of.dots.of_rows[row];
    };
    for_rows_of_block<batch>(rows, rows_each, read, [&](int n, std::int64_t row) {
      const R pull = dots[n] * inv[n] * inv[n] * inv[n] / static_cast<R>(of.dots.columns);
      R out[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        sums[i] += static_cast<R>(dy[n][i]) * (x[n][i] * inv[n]);
        out[i] = static_cast<R>(dy[n][i]) * gain[i] * inv[n] - x[n][i] * pull;
      }
      store(of.dx + row * cols, pack, out);
    });
  }
  write_partial(sums, partial, cols);
}

dim3 row_blocks(std::int64_t rows) { return blocks_for(rows, block_rows); }
dim3 row_threads() { return dim3(32, block_rows); }

}  // namespace

void row_dots(cudaStream_t stream, const RowDotsArgs& args) {
  const std::int64_t rows = args.a.rows();
  if (rows == 0) return;
  const Tensor& typed = args.weight ? *args.weight : args.a;
  const bool aligned = aligned16(args.a.data) && aligned16(args.b.data) && aligned16(typed.data);
  with_norm_types("row_dots", args.a, typed, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    launch(stream, row_dots_kernel<T, TW, decltype(w)::value>, row_blocks(rows), row_threads(), 0, data_of<T>(args.a),
           data_of<T>(args.b), data_or_null<TW>(args.weight), data_of<float>(args.sums), rows, static_cast<int>(args.a.cols()));
  });
}

void split_norm(cudaStream_t stream, const SplitNormArgs& args) {
  const std::int64_t rows = args.x.rows();
  if (rows == 0) return;
  const bool aligned = aligned16(args.x.data) && aligned16(args.y.data) && aligned16(args.weight.data);
  with_norm_types("split_norm", args.x, args.weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    launch(stream, split_norm_kernel<T, TW, decltype(w)::value>, row_blocks(rows), row_threads(), 0, data_of<T>(args.x),
           data_of<TW>(args.weight), RowSums{data_of<float>(args.square_sums), args.columns}, args.eps, data_of<T>(args.y),
           data_of<float>(args.inv_rms), rows, static_cast<int>(args.x.cols()));
  });
}

std::size_t split_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return column_partials_bytes(rows, cols, multiprocessors);
}

void split_norm_backward(cudaStream_t stream, const SplitNormBackwardArgs& args, int multiprocessors, void* scratch) {
  const std::int64_t rows = args.x.rows(), cols = args.x.cols();
  if (rows == 0) return;
  auto* const partial = static_cast<float*>(scratch);
  const bool aligned =
      aligned16(args.dy.data) && aligned16(args.x.data) && aligned16(args.dx.data) && aligned16(args.weight.data);
  with_norm_types("split_norm_backward", args.x, args.weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    const ColumnGrid grid(rows, cols / W, multiprocessors, gradient_blocks);
    const SplitNormGradient<T> of{data_of<T>(args.dy),
                                  data_of<T>(args.x),
                                  data_of<float>(args.inv_rms),
                                  {data_of<float>(args.dots), args.columns},
                                  data_of<T>(args.dx)};
    launch(stream, split_norm_backward_kernel<T, TW, W>, grid.blocks, ColumnGrid::threads(), 0, of, data_of<TW>(args.weight),
           partial, rows, static_cast<int>(cols), grid.rows_each);
    add_partials(stream, partial, grid.ranges, cols, {data_of<float>(args.dweight)});
  });
}

}  // namespace pipetrain::cuda
