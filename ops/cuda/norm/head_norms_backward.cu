// With s = inv_rms, n = x s and g = dy * (weight + offset): dx = s (g - n mean(g n)), dweight = sum of dy n over the heads.
#include <algorithm>

#include "ops/cuda/norm/head_norms.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int blocks_each = 4;  // blocks a multiprocessor
constexpr int batch = 4;        // rows of a thread, whose loads are in flight together

// A row is one query or key head of a token. `lanes` threads share a row, N packs of W columns each. A team of them has the
// same head of every `stride`-th token, and sums its columns for the weight's gradient; partial [blocks, 2, D] gets the sums of
// queries and of keys. The grid has at least as many teams as there are heads; the last ones have no work if the number of
// teams is no multiple of the heads.
template <class T, class TW, int W, int N>
__global__ void __launch_bounds__(block_threads, sizeof(T) == 2 ? blocks_each : 1)
    head_norms_backward_kernel(T* dqkv, HeadNormView<T, TW> queries, HeadNormView<T, TW> keys, HeadRows of, int lanes,
                               float offset, int tokens, float* partial) {
  using R = Real<T>;
  extern __shared__ __align__(16) char memory[];
  wait_for_previous();
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = block_threads / lanes, packs = of.dim / W;
  const int heads = of.normed_heads(), stride = gridDim.x * teams / heads;
  const int number = blockIdx.x * teams + team, head = number % heads;
  const bool is_query = head < of.heads;
  const HeadNormView<T, TW>& norm = is_query ? queries : keys;
  const int heads_of_norm = is_query ? of.heads : of.kv_heads, head_of_norm = is_query ? head : head - of.heads;
  T* const own_dqkv = dqkv + head * of.dim;
  const T* const own_input = norm.input + head_of_norm * of.dim;
  Pack<TW, W> weight[N] = {};
#pragma unroll
  for (int n = 0; n < N; ++n)
    if (lane + n * lanes < packs) weight[n] = load<W>(norm.weight, lane + n * lanes);

  R totals[N][W] = {};
  // The teams of a warp run the same number of rounds, because they exchange sums.
  const int own_first = number / heads < stride ? number / heads : tokens;
  for (int round = 0; round * batch * stride < tokens; ++round) {
    Pack<T, W> dy[batch][N] = {}, x[batch][N] = {};
    R inv[batch] = {};
    const int first = own_first + round * batch * stride;
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t token = first + b * stride;
      if (token >= tokens) continue;
      inv[b] = norm.inv_rms[token * heads_of_norm + head_of_norm];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = lane + n * lanes;
        if (pack >= packs) continue;
        dy[b][n] = load<W>(own_dqkv + token * of.stride, pack);
        x[b][n] = load<W>(own_input + token * heads_of_norm * of.dim, pack);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      R product = 0;  // the sum of g n
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const R sum = static_cast<R>(dy[b][n][i]) * (x[b][n][i] * inv[b]);
          product += sum * (static_cast<R>(weight[n][i]) + offset);
          totals[n][i] += sum;
        }
      product = lanes_sum(product, lanes);
      const std::int64_t token = first + b * stride;
      if (token >= tokens) continue;
      const R pull = -product / static_cast<R>(of.dim) * inv[b] * inv[b];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const int pack = lane + n * lanes;
        if (pack >= packs) continue;
        R out[W];
#pragma unroll
        for (int i = 0; i < W; ++i)
          out[i] = static_cast<R>(dy[b][n][i]) * (static_cast<R>(weight[n][i]) + offset) * inv[b] + x[b][n][i] * pull;
        store(own_dqkv + token * of.stride, pack, out);
      }
    }
  }

  // Adds the teams' sums of each column in order; memory: [teams][D].
  auto* const sums = reinterpret_cast<R*>(memory);
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int pack = lane + n * lanes;
    if (pack >= packs) continue;
#pragma unroll
    for (int i = 0; i < W; ++i) sums[team * of.dim + pack * W + i] = totals[n][i];
  }
  __syncthreads();
  for (int col = threadIdx.x; col < of.dim; col += block_threads) {
    R total[2] = {};
    for (int t = 0; t < teams; ++t) {
      const R sum = sums[t * of.dim + col];
      const bool of_query = (blockIdx.x * teams + t) % heads < of.heads;
      total[0] += of_query ? sum : R{0};
      total[1] += of_query ? R{0} : sum;
    }
    for (int s = 0; s < 2; ++s) partial[(blockIdx.x * 2LL + s) * of.dim + col] = static_cast<float>(total[s]);
  }
}

// Returns the blocks for rows of which `teams` fit into a block: enough for every head to have a team.
int blocks_of(const HeadRows& of, int teams, int multiprocessors) {
  return std::max(blocks_each * multiprocessors, ceil_div(of.normed_heads(), teams));
}

}  // namespace

std::size_t head_norms_backward_scratch(const SegmentShape& shape, int multiprocessors) {
  const std::int64_t blocks = blocks_of(head_rows(shape), block_threads / 32, multiprocessors);  // the most of any type
  return static_cast<std::size_t>(blocks * 2 * shape.head_dim) * sizeof(float);
}

void head_norms_backward(cudaStream_t stream, const SegmentShape& shape, const HeadNormsBackwardArgs& args, int multiprocessors,
                         void* scratch) {
  check_head_size(shape);
  if (shape.tokens() == 0) return;
  const HeadRows of = head_rows(shape);
  const bool aligned = aligned16(args.dqkv.data) && aligned16(args.queries) && aligned16(args.keys);
  auto* const partial = static_cast<float*>(scratch);
  with_types(args.dqkv.dtype, args.queries.weight.dtype, "head_norms_backward", [&](auto t, auto tw) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    with_width<T>(aligned && of.dim % full_width<T> == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      constexpr int N = W == 1 ? most_head_size / 32 : most_head_size / (32 * W);
      const int lanes = lanes_for(of.dim / W), teams = block_threads / lanes, blocks = blocks_of(of, teams, multiprocessors);
      const std::size_t shared = static_cast<std::size_t>(teams) * static_cast<std::size_t>(of.dim) * sizeof(Real<T>);
      launch(stream, head_norms_backward_kernel<T, TW, W, N>, static_cast<unsigned>(blocks), block_threads, shared,
             data_of<T>(args.dqkv), view_of<T, TW>(args.queries), view_of<T, TW>(args.keys), of, lanes, args.offset,
             static_cast<int>(shape.tokens()), partial);
      add_partials(stream, partial, blocks, of.dim, {data_of<float>(args.dquery_weight), data_of<float>(args.dkey_weight)});
    });
  });
}

}  // namespace pipetrain::cuda
