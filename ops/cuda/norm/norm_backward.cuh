// The gradients of RMSNorm and LayerNorm (`centered`). With s = inv_std, n = (x - mean) s and g = dy * (weight + offset): dx =
// s (g - mean(g) - n mean(g n)), dweight = sum of dy n over the rows, dbias = sum of dy. RMSNorm uses zero for the means of x
// and of g. `sums_residual`: also sums the residual over the rows, since it is read anyway. Only for .cu files.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <algorithm>

#include "ops/cuda/norm/norm.cuh"

namespace pipetrain::cuda {

template <class T>
struct NormInputs {
  const T *dy, *x, *residual;  // residual: may be null
  int cols;
};

// Loads a team's rows one after the other, the next one while the current one is computed. In this class the
// threads load their own packs of dy, x and residual of the next row into shared memory. A thread reads only
// what it copied itself, so no barrier is needed. (More than one row ahead is slower.)
template <class T, int W, int N>
struct NextRow {
  Pack<T, W>* memory;  // [N][3][threads of the block]
  NormInputs<T> in;

  struct Shared {};
  __device__ NextRow(char* dynamic, Shared&, const NormInputs<T>& inputs)
      : memory(reinterpret_cast<Pack<T, W>*>(dynamic)), in(inputs) {}

  // Returns the bytes of dynamic shared memory of a block.
  static int bytes(dim3 block, int) { return static_cast<int>(sizeof(Pack<T, W>) * N * 3 * block.x * block.y); }

  // Starts to load the team's first row; row is below 0 if it has none.
  __device__ void start(std::int64_t row, std::int64_t) {
    if (row >= 0) fetch(row);
  }
  // Called when this thread has read a row.
  __device__ void taken(std::int64_t row, std::int64_t stride) {
    if (row >= stride) fetch(row - stride);
  }
  // Called when all threads of the team have read it.
  __device__ void all_taken(std::int64_t, std::int64_t) {}

  __device__ Pack<T, W>& slot(int n, int which) {
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    return memory[(n * 3 + which) * threads + thread];
  }
  __device__ static void copy(Pack<T, W>& to, const T* from, int pack) {
    if constexpr (sizeof(to) >= 4) {
      __pipeline_memcpy_async(&to, reinterpret_cast<const Pack<T, W>*>(from) + pack, sizeof(to));
    } else {
      to = load<W>(from, pack);
    }
  }
  __device__ void fetch(std::int64_t row) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = threadIdx.x + n * blockDim.x;
      if (pack >= in.cols / W) break;
      copy(slot(n, 0), in.dy + row * in.cols, pack);
      copy(slot(n, 1), in.x + row * in.cols, pack);
      if (in.residual != nullptr) copy(slot(n, 2), in.residual + row * in.cols, pack);
    }
    __pipeline_commit();
  }
  __device__ void take(Pack<T, W> (&of_dy)[N], Pack<T, W> (&of_x)[N], Pack<T, W> (&of_residual)[N]) {
    __pipeline_wait_prior(0);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if (threadIdx.x + n * blockDim.x >= in.cols / W) continue;
      of_dy[n] = slot(n, 0);
      of_x[n] = slot(n, 1);
      if (in.residual != nullptr) of_residual[n] = slot(n, 2);
    }
  }
};

// Sums each of B values over the threads of a team (equal threadIdx.y); every thread gets the sums.
template <int B, class R>
__device__ void team_sums(R (&values)[B], R (*shared)[32]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
  for (int b = 0; b < B; ++b) {
    values[b] = warp_sum(values[b]);
    if (warps > 1 && lane == 0) shared[b][warp] = values[b];
  }
  if (warps == 1) return;
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
#pragma unroll
  for (int b = 0; b < B; ++b) values[b] = warp_sum(lane < warps ? shared[b][lane] : R{0});
}

constexpr int max_teams = 8;  // of more than a warp, in a block; each has a hardware barrier of its own
constexpr int max_warps = 16;

// Adds the block's teams' S sums of each column into those of team 0, halving the teams; memory: [half of the teams, S, cols].
template <int S, int W, int N, class R>
__device__ void add_teams(R (&sums)[S][N][W], R* memory, int packs) {
  const int team = threadIdx.y;
  const auto for_each_sum = [&](R* of_pair, auto body) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = threadIdx.x + n * blockDim.x;
      if (pack >= packs) break;
#pragma unroll
      for (int s = 0; s < S; ++s)
#pragma unroll
        for (int i = 0; i < W; ++i) body(sums[s][n][i], of_pair[(s * W + i) * packs + pack]);
    }
  };
  for (int teams = blockDim.y, half; teams > 1; teams = half) {
    half = (teams + 1) / 2;
    R* const of_pair = memory + static_cast<std::int64_t>(team < half ? team : team - half) * S * W * packs;
    __syncthreads();
    if (team >= half && team < teams) for_each_sum(of_pair, [](R& own, R& shared) { shared = own; });
    __syncthreads();
    if (team + half < teams) for_each_sum(of_pair, [](R& own, R& shared) { own += shared; });
  }
}

constexpr int backward_threads = 512;  // in a block: as many as the registers allow
template <int N>
constexpr int backward_threads_of = N == 3 ? 384 : backward_threads;
constexpr int backward_packs = 2;  // packs a thread, at least

// One block runs on a multiprocessor; its teams alternate over the rows and keep the sums of their columns for
// the weight's gradient in registers. partial [blocks, cols], or [blocks, 2 or 3, cols] with the bias's and the
// residual's. mean is used only if `centered`, the weight's offset only if not. Rows loads the rows: NextRow, or a class with
// the same members.
template <bool centered, bool sums_residual, class Rows, class T, class TW, int W, int N>
__global__ void __launch_bounds__(backward_threads_of<N>, 1)
    norm_backward_kernel(const T* dy, const T* x, const TW* weight, const float* mean, const float* inv_std, const T* residual,
                         T* dx, float* partial, std::int64_t rows, int cols, float offset_of_weight) {
  using R = Real<T>;
  extern __shared__ __align__(16) char memory[];
  __shared__ R shared[2][max_teams][2][32];
  __shared__ typename Rows::Shared of_rows;
  Rows next(memory, of_rows, {dy, x, residual, cols});
  wait_for_previous();
  const int packs = cols / W;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  // Goes from the last row to the first, for the cache (block_order.cuh).
  std::int64_t row = rows - 1 - (static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y);
  next.start(row, stride);

  Pack<TW, W> w[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack < packs) w[n] = load<W>(weight, pack);
  }
  const auto gain = [&](R of_weight) { return centered ? of_weight : of_weight + offset_of_weight; };
  constexpr int columns = 1 + (centered ? 1 : 0) + (sums_residual ? 1 : 0);
  R totals[columns][N][W] = {};  // sums for the weight's gradient, the bias's and the residual's
  float next_inv = row >= 0 ? inv_std[row] : 0.0F, next_center = centered && row >= 0 ? mean[row] : 0.0F;
  for (int parity = 0; row >= 0; row -= stride, parity ^= 1) {
    const R inv = next_inv, offset = -next_center * inv;  // n = x inv + offset
    if (row >= stride) {
      next_inv = inv_std[row - stride];
      if constexpr (centered) next_center = mean[row - stride];
    }
    Pack<T, W> in_dy[N] = {}, in_x[N] = {}, in_residual[N] = {};
    next.take(in_dy, in_x, in_residual);
    R sums[centered ? 2 : 1] = {};  // the sums of g n and of g
#pragma unroll
    for (int n = 0; n < N; ++n) {
      R of_pack[2] = {};  // shorter chains of additions
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const R of_dy = in_dy[n][i], normal = in_x[n][i] * inv + offset, grad = of_dy * gain(w[n][i]);
        of_pack[0] += grad * normal;
        totals[0][n][i] += of_dy * normal;
        if constexpr (centered) {
          of_pack[1] += grad;
          totals[1][n][i] += of_dy;
        }
      }
      sums[0] += of_pack[0];
      if constexpr (centered) sums[1] += of_pack[1];
    }
    next.taken(row, stride);
    team_sums(sums, shared[parity][threadIdx.y % max_teams]);
    next.all_taken(row, stride);
    // dx = g inv + x pull + level
    const R slope = sums[0] / static_cast<R>(cols), pull = -slope * inv * inv;
    R level = 0;
    if constexpr (centered) level = -(sums[1] / static_cast<R>(cols) + slope * offset) * inv;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = threadIdx.x + n * blockDim.x;
      if (pack >= packs) break;
      forget(in_dy[n]);
      forget(in_x[n]);
      forget(w[n]);
      R out[W];
#pragma unroll
      for (int i = 0; i < W; ++i) {
        R rest = in_residual[n][i];
        if constexpr (sums_residual) totals[2][n][i] += rest;
        if constexpr (centered) rest += level;
        out[i] = static_cast<R>(in_dy[n][i]) * gain(w[n][i]) * inv + (in_x[n][i] * pull + rest);
      }
      store(dx + row * cols, pack, out);
    }
  }

  cudaTriggerProgrammaticLaunchCompletion();  // the launch of the kernel that adds the blocks' sums overlaps
  add_teams(totals, reinterpret_cast<R*>(memory), packs);
  if (threadIdx.y != 0) return;
  float* const own = partial + static_cast<std::int64_t>(blockIdx.x) * columns * cols;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = threadIdx.x + n * blockDim.x;
    if (pack >= packs) break;
#pragma unroll
    for (int s = 0; s < columns; ++s) store(own + s * cols, pack, totals[s][n]);
  }
}

// Returns bytes. sums: 1 for the weight's gradient, 2 with the bias's, 3 with the residual's.
inline std::size_t norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors, int sums) {
  return static_cast<std::size_t>(std::min<std::int64_t>(rows, multiprocessors) * cols * sums) * sizeof(float);
}

// Runs for elements of these types, W at once. mean and dbias: without memory unless centered. args has
// residual_sums if sums_residual. Rows: how rows are loaded. most: packs a thread. offset: added to the weight.
template <bool centered, bool sums_residual, template <class, int, int> class Rows, int most, class T, class TW, int W>
void launch_norm_backward(cudaStream_t stream, const char* what, const LayerNormBackwardArgs& args, int multiprocessors,
                          void* scratch, float offset = 0) {
  const std::int64_t rows = args.x.rows();
  const auto cols = static_cast<int>(args.x.cols());
  auto* partial = static_cast<float*>(scratch);
  with_packs<backward_packs, most>(what, cols / W, backward_threads, [&](auto n, int threads) {
    constexpr int N = decltype(n)::value;
    const dim3 block(threads, std::clamp(backward_threads_of<N> / threads, 1, threads == 32 ? max_warps : max_teams));
    const auto blocks = static_cast<int>(std::min<std::int64_t>(ceil_div<std::int64_t>(rows, block.y), multiprocessors));
    constexpr int columns = 1 + (centered ? 1 : 0) + (sums_residual ? 1 : 0);
    const int pairs = block.y == 1 ? 0 : static_cast<int>(block.y + 1) / 2;
    const int halves = columns * W * N * threads * pairs * static_cast<int>(sizeof(Real<T>));
    const int shared = std::max(Rows<T, W, N>::bytes(block, cols), halves);
    const auto kernel = norm_backward_kernel<centered, sums_residual, Rows<T, W, N>, T, TW, W, N>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    launch(stream, kernel, blocks, block, shared, data_of<T>(args.dy), data_of<T>(args.x), data_of<TW>(args.weight),
           data_of<float>(args.mean), data_of<float>(args.inv_std), data_or_null<T>(args.residual), data_of<T>(args.dx),
           partial, rows, cols, offset);
    add_partials(stream, partial, blocks, cols,
                 {data_of<float>(args.dweight), data_of<float>(args.dbias), data_or_null<float>(args.residual_sums)});
  });
}

inline bool aligned16(const LayerNormBackwardArgs& args) {
  return aligned16(args.x.data) && aligned16(args.dy.data) && aligned16(args.dx.data) && aligned16(args.weight.data) &&
         (!args.residual || aligned16(args.residual->data));
}

template <bool centered, bool sums_residual = false>
void norm_backward(cudaStream_t stream, const char* what, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch,
                   float offset = 0) {
  if (args.x.rows() == 0) return;
  with_norm_types(what, args.x, args.weight, aligned16(args), [&](auto t, auto tw, auto w) {
    launch_norm_backward<centered, sums_residual, NextRow, most_packs, typename decltype(t)::type, typename decltype(tw)::type,
                         decltype(w)::value>(stream, what, args, multiprocessors, scratch, offset);
  });
}

}  // namespace pipetrain::cuda
