// RMSNorm and LayerNorm as one computation: RMSNorm has mean zero and no bias (`centered` is false), and may have an offset
// and a residual. Each row is spread over the registers of a warp or a block, N packs of W elements a thread. Only for .cu
// files.
#pragma once

#include "ops/cuda/block_order.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

// Returns the mean, and the sum of squared distances to it, of the row that blockDim.x threads hold, in every thread. Each
// warp sums distances to its own mean, and the block combines the warps' results (Chan, Golub and LeVeque 1979), since the
// difference of two large sums would lose the variance. Without `centered` the mean is zero.
template <class R>
struct Moments {
  R mean = 0, squares = 0;
};

template <bool centered, class T, int W, int N>
__device__ Moments<Real<T>> row_moments(Pack<T, W> (&in)[N], int packs) {
  using R = Real<T>;
  __shared__ R shared[3][32];  // sums, squares and numbers of elements of the warps
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  R sum = 0, squares = 0, mean = 0, count = 0;
  if constexpr (centered) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      count += static_cast<R>(W * min(max(packs - static_cast<int>(n * blockDim.x + warp * 32), 0), 32));
#pragma unroll
      for (int i = 0; i < W; ++i) sum += in[n][i];
    }
    sum = warp_sum(sum);
    mean = count > 0 ? sum / count : R{0};
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (threadIdx.x + n * blockDim.x >= packs) break;
    if constexpr (centered) forget(in[n]);
#pragma unroll
    for (int i = 0; i < W; ++i) squares += (in[n][i] - mean) * (in[n][i] - mean);
  }
  squares = warp_sum(squares);
  if (warps == 1) return {mean, squares};
  if (lane == 0) shared[0][warp] = sum, shared[1][warp] = squares, shared[2][warp] = count;
  __syncthreads();
  squares = lane < warps ? shared[1][lane] : R{0};
  if constexpr (!centered) return {R{0}, warp_sum(squares)};
  sum = lane < warps ? shared[0][lane] : R{0};
  count = lane < warps ? shared[2][lane] : R{0};
  const R all = warp_sum(sum) / warp_sum(count);
  const R off = count > 0 ? sum / count - all : R{0};
  return {all, warp_sum(squares + count * off * off)};
}

// The outputs of one pass over the rows.
template <class T>
struct NormOutput {
  T* y;
  float *mean, *inv_std;
  unsigned* largest;  // null: not wanted
};

// The other inputs of one pass over the rows. residual and offset are used unless centered.
template <class T>
struct NormTerms {
  float eps, offset;  // offset: added to the weight
  const T* residual;  // null: there is none; may be the output's memory
};

// threadIdx.y is the row within the block; there is only one, unless a warp handles a row. mean and bias are
// used if centered only.
template <bool centered, class T, class TW, int W, int N>
__global__ void __launch_bounds__(1024) norm_kernel(const T* x, const TW* weight, const TW* bias, NormTerms<T> terms,
                                                    NormOutput<T> to, std::int64_t rows, int cols) {
  wait_for_previous();
  const std::int64_t row = static_cast<std::int64_t>(block_from_end()) * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int packs = cols / W;
  x += row * cols;
  T* const y = to.y + row * cols;
  Pack<T, W> in[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) in[n] = load<W>(x, pack);
  }
  const auto moments = row_moments<centered>(in, packs);
  const Real<T> inv = 1 / sqrt(moments.squares / static_cast<Real<T>>(cols) + terms.eps);
  if (threadIdx.x == 0) {
    to.inv_std[row] = static_cast<float>(inv);
    if constexpr (centered) to.mean[row] = static_cast<float>(moments.mean);
  }
  unsigned found = 0;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack >= packs) break;
    forget(in[n]);
    const auto w = load<W>(weight, pack);
    Real<T> out[W];
    if constexpr (centered) {
      const auto b = load<W>(bias, pack);
#pragma unroll
      for (int i = 0; i < W; ++i) out[i] = (in[n][i] - moments.mean) * inv * w[i] + b[i];
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) out[i] = in[n][i] * inv * (static_cast<Real<T>>(w[i]) + terms.offset);
      if (terms.residual != nullptr) {
        const auto more = load<W>(terms.residual + row * cols, pack);
#pragma unroll
        for (int i = 0; i < W; ++i) out[i] += more[i];
      }
    }
#pragma unroll
    for (int i = 0; i < W; ++i) found = max(found, magnitude(out[i]));
    store(y, pack, out);
  }
  if (to.largest == nullptr) return;
  if (blockDim.y == 1) {
    raise_by_block<T>(to.largest, found);
  } else {
    raise_by_warp<T>(to.largest, found);
  }
}

inline int round_to_warps(std::int64_t threads) { return static_cast<int>(ceil_div<std::int64_t>(threads, 32) * 32); }

constexpr int most_packs = 8;  // packs of a row that a thread holds at most

// Calls body(Constant<N>, threads) with the fewest packs N a thread, from `least` to `most`, for which at most
// `limit` threads hold a row. Kernels are compiled for these N alone.
template <int least, int most, class Body>
void with_packs(const char* what, std::int64_t packs, int limit, Body body) {
  const auto starts = [&](auto n) {
    constexpr int N = decltype(n)::value;
    if constexpr (N >= least && N <= most) {
      const std::int64_t threads = ceil_div<std::int64_t>(packs, N);
      if (threads > limit) return false;
      body(n, round_to_warps(threads));
      return true;
    } else {
      return false;
    }
  };
  if constexpr (least <= 3 && most >= 3) {  // a single warp, most of whose threads have work
    if (packs > 2 * 32 && packs <= 3 * 32) return body(Constant<3>{}, 32);
  }
  if (starts(Constant<1>{}) || starts(Constant<2>{}) || starts(Constant<4>{}) || starts(Constant<8>{})) return;
  throw Error(ErrorKind::unavailable,
              std::string(what) + " on GPUs: the hidden size is too large; a multiple of 8 up to 32768 works");
}

// Calls body(T, TW, W) for these types.
template <class Body>
void with_norm_types(const char* what, const Tensor& x, const Tensor& weight, bool aligned, Body body) {
  with_types(x.dtype, weight.dtype, what, [&](auto t, auto tw) {
    using T = typename decltype(t)::type;
    with_width<T>(aligned && x.cols() % full_width<T> == 0, [&](auto w) { body(t, tw, w); });
  });
}

// bias and mean: without memory unless centered. offset and residual: only without `centered`.
template <bool centered>
void norm_forward(cudaStream_t stream, const char* what, const LayerNormArgs& args, float offset = 0,
                  const std::optional<Tensor>& residual = {}) {
  unsigned* const largest = begin_largest(stream, args.largest);
  const std::int64_t rows = args.x.rows(), cols = args.x.cols();
  if (rows == 0) return;
  const bool aligned = aligned16(args.x.data) && aligned16(args.y.data) && aligned16(args.weight.data) &&
                       aligned16(args.bias.data) && (!residual || aligned16(residual->data));
  with_norm_types(what, args.x, args.weight, aligned, [&](auto t, auto tw, auto w) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    constexpr int W = decltype(w)::value;
    // A short row is handled by one warp, which needs no barrier; threads handle several packs of a longer one,
    // so that enough loads are in flight.
    const bool warps = cols / W < 256;
    const auto start = [&](auto n, int threads) {
      const int rows_each = warps ? 4 : 1;
      launch(stream, norm_kernel<centered, T, TW, W, decltype(n)::value>, blocks_for(rows, rows_each), dim3(threads, rows_each),
             0, data_of<T>(args.x), data_of<TW>(args.weight), data_of<TW>(args.bias),
             NormTerms<T>{args.eps, offset, data_or_null<T>(residual)},
             NormOutput<T>{data_of<T>(args.y), data_of<float>(args.mean), data_of<float>(args.inv_std), largest}, rows,
             static_cast<int>(cols));
    };
    if (warps) return with_packs<1, most_packs>(what, cols / W, 32, start);
    with_packs<4, most_packs>(what, cols / W, 1024, start);
  });
}

}  // namespace pipetrain::cuda
