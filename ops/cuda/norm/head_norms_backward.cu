// With s = inv_rms, n = x s and g = dy * (weight + offset): dx = s (g - n mean(g n)), dweight = sum of dy n over the heads.
#include <algorithm>

#include "ops/cuda/norm/head_norms.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int blocks_each = 4;  // blocks a multiprocessor
constexpr int batch = 2;        // rows of a thread, whose loads are in flight together

// A row is one query or key head of a token. `lanes` threads share a row, N packs of W columns each. Every thread sums its
// columns over its rows for the weights' gradients; partial [blocks, 2, D] gets the sums of queries and of keys.
template <class T, class TW, int W, int N>
__global__ void __launch_bounds__(block_threads, sizeof(T) == 2 ? blocks_each : 1)
    head_norms_backward_kernel(T* dqkv, HeadNormView<T, TW> queries, HeadNormView<T, TW> keys, HeadRows of, int lanes,
                               float offset, std::int64_t rows, float* partial) {
  using R = Real<T>;
  extern __shared__ __align__(16) char memory[];
  wait_for_previous();
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = block_threads / lanes, packs = of.dim / W;
  const int heads = of.normed_heads();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * teams;
  R totals[2][N][W] = {};  // of queries and of keys
  // Every thread of a warp runs the same number of rounds, because they exchange sums.
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * teams; first < rows; first += batch * stride) {
    Pack<T, W> dy[batch][N] = {}, x[batch][N] = {};
    T* place[batch];
    R inv[batch];
    bool is_query[batch], there[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t row = first + team + b * stride;
      there[b] = row < rows;
      if (!there[b]) continue;
      const std::int64_t token = row / heads;
      const int head = static_cast<int>(row % heads);
      is_query[b] = head < of.heads;
      const HeadNormView<T, TW>& norm = is_query[b] ? queries : keys;
      const std::int64_t at = is_query[b] ? token * of.heads + head : token * of.kv_heads + head - of.heads;
      place[b] = dqkv + token * of.stride + head * of.dim;
      inv[b] = norm.inv_rms[at];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = lane + n * lanes;
        if (pack >= packs) continue;
        dy[b][n] = load<W>(place[b], pack);
        x[b][n] = load<W>(norm.input + at * of.dim, pack);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      Pack<TW, W> weight[N] = {};
      R product = 0;  // the sum of g n
      if (there[b]) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
          const int pack = lane + n * lanes;
          if (pack >= packs) continue;
          weight[n] = load<W>(is_query[b] ? queries.weight : keys.weight, pack);
#pragma unroll
          for (int i = 0; i < W; ++i) {
            const R of_dy = dy[b][n][i], normal = x[b][n][i] * inv[b], sum = of_dy * normal;
            product += sum * (static_cast<R>(weight[n][i]) + offset);
            totals[0][n][i] += is_query[b] ? sum : R{0};
            totals[1][n][i] += is_query[b] ? R{0} : sum;
          }
        }
      }
      product = lanes_sum(product, lanes);
      if (!there[b]) continue;
      const R pull = -product / static_cast<R>(of.dim) * inv[b] * inv[b];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = lane + n * lanes;
        if (pack >= packs) continue;
        R out[W];
#pragma unroll
        for (int i = 0; i < W; ++i)
          out[i] = static_cast<R>(dy[b][n][i]) * (static_cast<R>(weight[n][i]) + offset) * inv[b] + x[b][n][i] * pull;
        store(place[b], pack, out);
      }
    }
  }

  // Adds the teams' sums of each column in order; memory: [teams][2][D].
  auto* const sums = reinterpret_cast<R*>(memory);
#pragma unroll
  for (int s = 0; s < 2; ++s)
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = lane + n * lanes;
      if (pack >= packs) continue;
#pragma unroll
      for (int i = 0; i < W; ++i) sums[(team * 2 + s) * of.dim + pack * W + i] = totals[s][n][i];
    }
  __syncthreads();
  for (int col = threadIdx.x; col < 2 * of.dim; col += block_threads) {
    R total = 0;
    for (int t = 0; t < teams; ++t) total += sums[t * 2 * of.dim + col];
    partial[blockIdx.x * 2LL * of.dim + col] = static_cast<float>(total);
  }
}

// The most blocks of the kernel, whatever the type.
std::int64_t most_blocks(int multiprocessors) { return static_cast<std::int64_t>(blocks_each) * multiprocessors; }

}  // namespace

std::size_t head_norms_backward_scratch(const SegmentShape& shape, int multiprocessors) {
  return static_cast<std::size_t>(most_blocks(multiprocessors) * 2 * shape.head_dim) * sizeof(float);
}

void head_norms_backward(cudaStream_t stream, const SegmentShape& shape, const HeadNormsBackwardArgs& args, int multiprocessors,
                         void* scratch) {
  check_head_size(shape);
  if (shape.tokens() == 0) return;
  const HeadRows of = head_rows(shape);
  const std::int64_t rows = shape.tokens() * of.normed_heads();
  const bool aligned = aligned16(args.dqkv.data) && aligned16(args.queries) && aligned16(args.keys);
  auto* const partial = static_cast<float*>(scratch);
  with_types(args.dqkv.dtype, args.queries.weight.dtype, "head_norms_backward", [&](auto t, auto tw) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    with_width<T>(aligned && of.dim % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      constexpr int N = W == 1 ? most_head_size / 32 : most_head_size / (32 * W);
      const int lanes = lanes_for(of.dim / W), teams = block_threads / lanes;
      const auto blocks = static_cast<int>(std::min(ceil_div<std::int64_t>(rows, batch * teams), most_blocks(multiprocessors)));
      const std::size_t shared = static_cast<std::size_t>(teams) * 2 * static_cast<std::size_t>(of.dim) * sizeof(Real<T>);
      const auto kernel = head_norms_backward_kernel<T, TW, W, N>;
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      launch(stream, kernel, static_cast<unsigned>(blocks), block_threads, shared, data_of<T>(args.dqkv),
             view_of<T, TW>(args.queries), view_of<T, TW>(args.keys), of, lanes, args.offset, rows, partial);
      add_partials(stream, partial, blocks, of.dim, {data_of<float>(args.dquery_weight), data_of<float>(args.dkey_weight)});
    });
  });
}

}  // namespace pipetrain::cuda
