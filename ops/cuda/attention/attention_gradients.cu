// The gradients of the attention in attention.cu.
#include "ops/cuda/attention/attention_delta.cuh"
#include "ops/cuda/attention/attention_tile.cuh"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

// G: the gradient's type
template <class T, class G, int J, bool sparse>
__global__ void __launch_bounds__(threads) dq_kernel(Segment<T> s, Outputs<T, double> of, Gradient<G> dq) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R dscore[tile][tile + 1];
  const Heads& h = s.heads;
  const int first = blockIdx.x * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, query = first + r;
  const KeyReach own = s.template reach<sparse>(batch, query), lowest = s.template reach<sparse>(batch, first);
  const int widest = max(h.dim, h.value);
  Rows q(memory, 0, widest), g(memory, 1, widest), k(memory, 2, widest), v(memory, 3, widest);
  q.load(s.query_head(batch, head), s.q_cols, first, h.sequence, h.dim);
  g.load(of.dout_head(h, batch, head), h.heads * h.value, first, h.sequence, h.value);
  const std::int64_t statistic = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
  const R log_sum = query < h.sequence ? of.log_sum_exp[statistic] : 0.0F;
  const R row_delta = query < h.sequence ? static_cast<R>(of.delta[statistic]) : R{0};

  R acc[J] = {};
  for (int key0 = s.template first_tile<sparse, tile>(lowest); key0 < s.keys && key0 < first + tile + s.ahead();
       key0 = s.template next_tile<sparse, tile>(lowest, key0)) {
    __syncthreads();
    k.load(s.key_head(batch, kv), s.kv_cols, key0, s.keys, h.dim);
    v.load(s.value_head(batch, kv), s.kv_cols, key0, s.keys, h.value);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < per_lane; ++j) {
      const int c = lane + lanes * j, key = key0 + c;
      R value = 0;
      if (query < h.sequence && s.template sees<sparse>(own, query, key)) {
        const R weight = exp(static_cast<R>(h.scale) * dot<R>(q.row(r), k.row(c), h.dim) - log_sum);
        const R factor = s.factor(batch, head, query, key);
        value = weight * (factor * dot<R>(g.row(r), v.row(c), h.value) - row_delta);
      }
      dscore[r][c] = value;
    }
    __syncwarp();
    accumulate(acc, dscore[r], k, lane, h.dim);
  }
  if (query < h.sequence) write(dq.at(batch, head * h.dim, query), acc, static_cast<R>(h.scale), lane, h.dim, dq.adds);
}

// One block handles a tile of keys of one key-value head: it adds over that head's query heads and later
// queries, in order. G: the gradient's type.
template <class T, class G, int J, bool sparse>
__global__ void __launch_bounds__(threads) dkv_kernel(Segment<T> s, Outputs<T, double> of, Gradient<G> dkv) {
  using R = Real<T>;
  extern __shared__ float memory[];
  __shared__ R weights[tile][tile + 1], dscore[tile][tile + 1];
  const Heads& h = s.heads;
  const int first = blockIdx.x * tile, kv = blockIdx.y, batch = blockIdx.z;
  const int r = threadIdx.x / lanes, lane = threadIdx.x % lanes, key = first + r;
  const int widest = max(h.dim, h.value);
  Rows k(memory, 0, widest), v(memory, 1, widest), q(memory, 2, widest), g(memory, 3, widest);
  k.load(s.key_head(batch, kv), s.kv_cols, first, s.keys, h.dim);
  v.load(s.value_head(batch, kv), s.kv_cols, first, s.keys, h.value);

  R dk[J] = {}, dv[J] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    for (int query0 = max(0, first - s.ahead()) / tile * tile; query0 < h.sequence; query0 += tile) {
      const KeyReach lowest = s.template reach<sparse>(batch, query0);
      if (!s.template shows_tile<sparse, tile>(lowest, first)) {
        if (s.template is_past<sparse, tile>(lowest, first)) break;
        continue;
      }
      __syncthreads();
      q.load(s.query_head(batch, head), s.q_cols, query0, h.sequence, h.dim);
      g.load(of.dout_head(h, batch, head), h.heads * h.value, query0, h.sequence, h.value);
      __syncthreads();
      const std::int64_t statistics = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence;
#pragma unroll
      for (int j = 0; j < per_lane; ++j) {
        const int c = lane + lanes * j, query = query0 + c;
        R weight = 0, value = 0;
        if (query < h.sequence && s.template sees<sparse>(s.template reach<sparse>(batch, query), query, key)) {
          const R factor = s.factor(batch, head, query, key);
          weight = exp(static_cast<R>(h.scale) * dot<R>(q.row(c), k.row(r), h.dim) -
                       static_cast<R>(of.log_sum_exp[statistics + query]));
          value = weight * (factor * dot<R>(g.row(c), v.row(r), h.value) - static_cast<R>(of.delta[statistics + query]));
          weight *= factor;
        }
        weights[r][c] = weight;
        dscore[r][c] = value;
      }
      __syncwarp();
      accumulate(dv, weights[r], g, lane, h.value);
      accumulate(dk, dscore[r], q, lane, h.dim);
    }
  }
  if (key >= s.keys) return;
  write(dkv.at(batch, kv * h.dim, key), dk, static_cast<R>(h.scale), lane, h.dim, dkv.adds);
  write(dkv.at(batch, h.kv_heads * h.dim + kv * h.value, key), dv, R{1}, lane, h.value, dkv.adds);
}

// Q, K: the types of the gradients of queries and of keys and values
template <class T, class Q, class K>
void backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, double* delta) {
  const auto segment = segment_of<T>(shape, args);
  Outputs<T, double> of{};
  with_type(args.out.dtype, "attention's output",
            [&](auto o) { of = outputs_of<T, typename decltype(o)::type>(stream, shape, args, delta); });
  const Gradient<Q> dq = query_gradient<Q>(shape, args);
  const Gradient<K> dk = key_gradient<K>(shape, args);
  with_pattern(shape, [&](auto pattern) {
    with_head_size(widest_head(shape), [&](auto j) {
      constexpr int J = decltype(j)::value;
      constexpr bool sparse = decltype(pattern)::value;
      launch(dq_kernel<T, Q, J, sparse>, {shape.queries, shape.heads, shape.batch, 4, widest_head(shape)}, stream, segment, of,
             dq);
      launch(dkv_kernel<T, K, J, sparse>, {shape.keys, shape.kv_heads, shape.batch, 4, widest_head(shape)}, stream, segment, of,
             dk);
    });
  });
}

}  // namespace

std::size_t attention_backward_scratch(const SegmentShape& shape) {
  return static_cast<std::size_t>(shape.tokens() * shape.heads) * sizeof(double);
}

void attention_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, void* scratch) {
  if (shape.tokens() == 0) return;
  auto* const delta = static_cast<double*>(scratch);
  with_type(args.q.dtype, "attention_backward", [&](auto t) {
    using T = typename decltype(t)::type;
    if (args.dkv.dtype == args.q.dtype && args.dq.dtype == args.q.dtype) return backward<T, T, T>(stream, shape, args, delta);
    if (args.dkv.dtype != DType::f32) throw Error(ErrorKind::internal, "attention_backward: dkv is neither f32 nor as dq");
    if (args.dq.dtype == DType::f32) return backward<T, float, float>(stream, shape, args, delta);
    backward<T, T, float>(stream, shape, args, delta);
  });
}

}  // namespace pipetrain::cuda
