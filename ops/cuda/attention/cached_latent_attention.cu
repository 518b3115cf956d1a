// Latent attention of a sequence's next positions with a cache of latent vectors, for text generation. Scores are
// q . (W_k c) = (W_k^T q) . c, so each query takes the matrix instead of each key; likewise the sum of values is W_v times the
// sum of latent vectors (DeepSeek-AI 2024, "DeepSeek-V2"). A block handles one token and head; its warps alternate over the
// keys, each with a running softmax, and are combined in a fixed order.
#include "ops/cuda/attention/cached_keys.cuh"
#include "ops/cuda/attention/latent.cuh"
#include "ops/cuda/attention/latent_kernels.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int warps = 8;
constexpr int threads = 32 * warps;

struct CachedLatents {
  LatentColumns of;
  int rank;  // of the latent vectors
  const float* cos_sin;
  bool interleaved;
  int first;  // the first token's position
  KeyPattern pattern;
  double scale;

  __device__ __host__ int cached() const { return rank + of.rotated; }
  __device__ LatentTurn turn(int token) const { return {cos_sin + token * of.rotated, of.rotated / 2, interleaved, 1}; }
};

// cache [T, K + R] = the token's latent vector and its rotated columns
template <class T>
__global__ void store_kernel(CachedLatents view, const T* latent, const T* shared, T* cache) {
  wait_for_previous();
  const int token = static_cast<int>(blockIdx.x);
  T* const to = cache + static_cast<std::int64_t>(token) * view.cached();
  for (int i = static_cast<int>(threadIdx.x); i < view.rank; i += threads)
    to[i] = latent[static_cast<std::int64_t>(token) * view.rank + i];
  for (int i = static_cast<int>(threadIdx.x); i < view.of.rotated; i += threads) {
    Real<T> out[1];
    view.turn(token).rotate<1>(shared + static_cast<std::int64_t>(token) * view.of.rotated, i, out);
    to[view.rank + i] = from_float<T>(static_cast<float>(out[0]));
  }
}

// The memory of one block: the query that takes latent vectors [K + R], and each warp's sum of latent vectors [warps, K].
template <class R>
std::size_t block_bytes(const CachedLatents& view) {
  return static_cast<std::size_t>(view.cached() + warps * view.rank) * sizeof(R);
}

// Writes the query [K + R] that takes latent vectors. q: the head's columns, not rotated yet. expand: the head's rows.
template <class T, class R>
__device__ void widen_query(const CachedLatents& view, const T* q, const T* expand, int token, R* wide) {
  for (int c = static_cast<int>(threadIdx.x); c < view.rank; c += threads) {
    R sum = 0;
    for (int p = 0; p < view.of.plain; ++p)
      sum += static_cast<R>(to_float(q[p])) * to_float(expand[static_cast<std::int64_t>(p) * view.rank + c]);
    wide[c] = sum;
  }
  for (int i = static_cast<int>(threadIdx.x); i < view.of.rotated; i += threads) {
    R out[1];
    view.turn(token).rotate<1>(q + view.of.plain, i, out);
    wide[view.rank + i] = out[0];
  }
}

// Adds every eighth key's latent vector to `sums` [K], weighted by exp(score - largest). One warp.
template <bool sparse, class T, class R>
__device__ void add_keys(const CachedLatents& view, const T* cache, const R* wide, int token, R* sums, R& largest, R& total) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = lane; i < view.rank; i += 32) sums[i] = 0;
  for_keys_of_warp<sparse, warps>(view.pattern, view.first + token, warp, [&](int key) {
    const T* const at = cache + static_cast<std::int64_t>(key) * view.cached();
    R dot = 0;
    for (int i = lane; i < view.cached(); i += 32) dot += wide[i] * static_cast<R>(to_float(at[i]));
    const R score = static_cast<R>(view.scale) * warp_sum(dot), top = score > largest ? score : largest;
    const R shrink = exp(largest - top), weight = exp(score - top);
    total = total * shrink + weight;
    for (int i = lane; i < view.rank; i += 32) sums[i] = sums[i] * shrink + weight * static_cast<R>(to_float(at[i]));
    largest = top;
  });
}

template <class T, bool sparse>
__global__ void __launch_bounds__(threads)
    attend_kernel(CachedLatents view, const T* q, const T* expand, const T* cache, T* out) {
  using R = Real<T>;
  extern __shared__ double memory[];
  __shared__ R largest_of[warps], total_of[warps];
  wait_for_previous();
  const LatentColumns& of = view.of;
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  R *const wide = reinterpret_cast<R*>(memory), *const sums = wide + view.cached();
  const T* const rows = expand + static_cast<std::int64_t>(head) * of.expanded() * view.rank;
  widen_query(view, q + static_cast<std::int64_t>(token) * of.first_key() + head * of.head(), rows, token, wide);
  __syncthreads();
  R largest = -INFINITY, total = 0;
  add_keys<sparse>(view, cache, wide, token, sums + warp * view.rank, largest, total);
  if (lane == 0) largest_of[warp] = largest, total_of[warp] = total;
  __syncthreads();
  R top = largest_of[0], all = 0;
  for (int w = 1; w < warps; ++w) top = largest_of[w] > top ? largest_of[w] : top;
  for (int w = 0; w < warps; ++w) all += exp(largest_of[w] - top) * total_of[w];
  for (int i = static_cast<int>(threadIdx.x); i < view.rank; i += threads) {
    R sum = 0;
    for (int w = 0; w < warps; ++w) sum += exp(largest_of[w] - top) * sums[w * view.rank + i];
    wide[i] = sum / all;
  }
  __syncthreads();
  for (int v = warp; v < of.value; v += warps) {
    const T* const row = rows + static_cast<std::int64_t>(of.plain + v) * view.rank;
    R sum = 0;
    for (int i = lane; i < view.rank; i += 32) sum += wide[i] * static_cast<R>(to_float(row[i]));
    sum = warp_sum(sum);
    if (lane == 0)
      out[(static_cast<std::int64_t>(token) * of.heads + head) * of.value + v] = from_float<T>(static_cast<float>(sum));
  }
}

}  // namespace

void cached_latent_attention(cudaStream_t stream, const SegmentShape& shape, const CachedLatentAttentionArgs& args) {
  if (shape.tokens() == 0) return;
  const CachedLatents view{.of = latent_columns(shape, args.cos_sin),
                           .rank = static_cast<int>(args.latent.cols()),
                           .cos_sin = data_of<float>(args.cos_sin),
                           .interleaved = args.interleaved,
                           .first = static_cast<int>(shape.first_query),
                           .pattern = pattern_of(shape),
                           .scale = shape.exact_score_scale()};
  const auto tokens = static_cast<unsigned>(shape.queries);
  with_type(args.q.dtype, "cached_latent_attention", [&](auto t) {
    using T = typename decltype(t)::type;
    const std::size_t bytes = block_bytes<Real<T>>(view);
    launch(stream, store_kernel<T>, tokens, threads, 0, view, data_of<T>(args.latent), data_of<T>(args.rotated),
           data_of<T>(args.cache.row_range(shape.first_query, shape.first_query + shape.queries)));
    const auto attend = [&](auto kernel) {
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
      launch(stream, kernel, dim3(tokens, static_cast<unsigned>(shape.heads)), threads, bytes, view, data_of<T>(args.q),
             data_of<T>(args.expand), data_of<T>(args.cache), data_of<T>(args.out));
    };
    shape.is_sparse() ? attend(attend_kernel<T, true>) : attend(attend_kernel<T, false>);
  });
}

}  // namespace pipetrain::cuda
