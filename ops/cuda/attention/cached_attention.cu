// Attention of a sequence's next positions to the keys and values of all positions before them, for text
// generation. A block handles one token and query head; its warps alternate over the keys, each with a running
// softmax (Dao 2023), and are combined in a fixed order. Sums of fp32 tensors are fp64, as in attention.cu.
#include "ops/cuda/attention/cached_keys.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int warps = 8;
constexpr int threads = 32 * warps;

struct Heads {
  int heads, kv_heads, dim;
  double scale;

  __device__ std::int64_t packed() const { return static_cast<std::int64_t>(heads + 2 * kv_heads) * dim; }
  __device__ std::int64_t cached() const { return static_cast<std::int64_t>(2 * kv_heads) * dim; }
};

// cache[first + token] = the token's keys and values, which are the columns after its queries.
template <class T>
__global__ void store_kernel(Heads h, const T* qkv, T* cache) {
  wait_for_previous();
  const std::int64_t token = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < h.cached(); i += blockDim.x)
    cache[token * h.cached() + i] = qkv[token * h.packed() + static_cast<std::int64_t>(h.heads) * h.dim + i];
}

// The softmax over some keys: the largest score, the sum of exp(score - largest), and the values weighted with
// these; each thread has J elements of a head (lane, lane + 32, ...).
template <class R, int J>
struct Partial {
  R largest = -INFINITY, sum = 0, value[J] = {};

  __device__ void add(R score, const R (&row)[J]) {
    const R top = score > largest ? score : largest;
    const R shrink = exp(largest - top), weight = exp(score - top);
    sum = sum * shrink + weight;
#pragma unroll
    for (int j = 0; j < J; ++j) value[j] = value[j] * shrink + weight * row[j];
    largest = top;
  }
};

template <class R, int J, class T>
__device__ void load_row(R (&row)[J], const T* head, int lane, int dim) {
#pragma unroll
  for (int j = 0; j < J; ++j) row[j] = lane + 32 * j < dim ? static_cast<R>(to_float(head[lane + 32 * j])) : R{0};
}

template <class T, int J, bool sparse>
__global__ void __launch_bounds__(threads)
    attend_kernel(Heads h, const T* qkv, const T* cache, int first, KeyPattern pattern, T* out, float* log_sum_exp) {
  using R = Real<T>;
  wait_for_previous();
  __shared__ R largest[warps], sums[warps], values[warps][32 * J];
  const std::int64_t token = blockIdx.x;
  const int head = blockIdx.y, kv = head / (h.heads / h.kv_heads), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  R query[J], row[J];
  load_row(query, qkv + token * h.packed() + static_cast<std::int64_t>(head) * h.dim, lane, h.dim);
  Partial<R, J> own;
  for_keys_of_warp<sparse, warps>(pattern, first + static_cast<int>(token), warp, [&](int key) {
    const T* at = cache + key * h.cached() + static_cast<std::int64_t>(kv) * h.dim;
    load_row(row, at, lane, h.dim);
    R dot = 0;
#pragma unroll
    for (int j = 0; j < J; ++j) dot += query[j] * row[j];
    dot = warp_sum(dot);
    load_row(row, at + static_cast<std::int64_t>(h.kv_heads) * h.dim, lane, h.dim);
    own.add(static_cast<R>(h.scale) * dot, row);
  });
  if (lane == 0) largest[warp] = own.largest, sums[warp] = own.sum;
#pragma unroll
  for (int j = 0; j < J; ++j) values[warp][lane + 32 * j] = own.value[j];
  __syncthreads();
  R top = largest[0];
#pragma unroll
  for (int w = 1; w < warps; ++w) top = largest[w] > top ? largest[w] : top;
  if (log_sum_exp != nullptr && threadIdx.x == 0) {
    R total = 0;
    for (int w = 0; w < warps; ++w) total += exp(largest[w] - top) * sums[w];
    log_sum_exp[head * static_cast<std::int64_t>(gridDim.x) + token] = static_cast<float>(top + log(total));
  }
  for (int d = threadIdx.x; d < h.dim; d += threads) {
    R value = 0, total = 0;
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const R share = exp(largest[w] - top);  // 0 for a warp that had no key
      value += share * values[w][d];
      total += share * sums[w];
    }
    out[(token * h.heads + head) * h.dim + d] = from_float<T>(static_cast<float>(value / total));
  }
}

// Calls body(Constant<J>), where J is the number of a head's elements that each thread of a warp holds.
template <class Body>
void with_head_size(const SegmentShape& shape, Body body) {
  if (shape.head_dim <= 32) return body(Constant<1>{});
  if (shape.head_dim <= 64) return body(Constant<2>{});
  if (shape.head_dim <= 128) return body(Constant<4>{});
  if (shape.head_dim <= 256) return body(Constant<8>{});
  throw Error(ErrorKind::unavailable, "attention on GPUs: head size " + std::to_string(shape.head_dim) + " is above 256");
}

}  // namespace

void cached_attention(cudaStream_t stream, const SegmentShape& shape, const CachedAttentionArgs& args) {
  if (shape.tokens() == 0) return;
  const Heads heads{static_cast<int>(shape.heads), static_cast<int>(shape.kv_heads), static_cast<int>(shape.head_dim),
                    shape.exact_score_scale()};
  const auto tokens = static_cast<unsigned>(shape.queries);
  with_type(args.qkv.dtype, "cached_attention", [&](auto t) {
    using T = typename decltype(t)::type;
    launch(stream, store_kernel<T>, tokens, threads, 0, heads, data_of<T>(args.qkv),
           data_of<T>(args.cache.row_range(shape.first_query, shape.first_query + shape.queries)));
    const auto attend = [&](auto kernel) {
      launch(stream, kernel, dim3(tokens, static_cast<unsigned>(shape.heads)), threads, 0, heads, data_of<T>(args.qkv),
             data_of<T>(args.cache), static_cast<int>(shape.first_query), pattern_of(shape), data_of<T>(args.out),
             args.log_sum_exp.shape.rank() == 0 ? nullptr : data_of<float>(args.log_sum_exp));
    };
    with_head_size(shape, [&](auto j) {
      constexpr int J = decltype(j)::value;
      shape.is_sparse() ? attend(attend_kernel<T, J, true>) : attend(attend_kernel<T, J, false>);
    });
  });
}

}  // namespace pipetrain::cuda
