// The gradients of attention_mma.cu, from its saved log-sum-exp. One kernel computes those of queries, a block
// for each tile of 64 queries, and another those of keys and values, a block for each tile of keys. Every sum
// has a fixed order, so the bits are the same in every run (Dao 2023).
#include "ops/cuda/attention/attention_delta.cuh"
#include "ops/cuda/attention/mma_dropout.cuh"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

// The rows of one head, whose first column is this one.
template <class T>
__device__ Target<T> target_of(const Gradient<T>& gradient, int batch, int column, int end, int dim) {
  return {gradient.at(batch, column, 0), gradient.cols, end, dim, gradient.adds};
}

// G: the gradient's type, bf16 or float.
template <int size, class G>
__global__ void __launch_bounds__(threads) dq_kernel(Segment<bf16> s, Outputs<bf16, float> in, Gradient<G> dq) {
  extern __shared__ uint4 memory[];
  const Heads& h = s.heads;
  const Tile<size> q(reinterpret_cast<bf16*>(memory), 0), g(q.at, 1), k(q.at, 2), v(q.at, 3);
  const int first = (gridDim.x - 1 - blockIdx.x) * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const Draws draws(s, batch, head);
  const float scale = static_cast<float>(h.scale) * log2_e, kept_scale = h.dropout.scale();
  int query[2], begin[2];
  float log_sum[2], delta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    query[i] = first + warp_row + lane / 4 + 8 * i;
    begin[i] = s.begin(batch, query[i]);
    const std::int64_t at = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query[i];
    log_sum[i] = query[i] < h.sequence ? in.log_sum_exp[at] * log2_e : 0.0F;
    delta[i] = query[i] < h.sequence ? in.delta[at] : 0.0F;
  }
  q.load({s.query_head(batch, head), s.q_cols, h.sequence, h.dim}, first);
  g.load({in.dout_head(h, batch, head), h.heads * h.dim, h.sequence, h.dim}, first);

  float acc[size / 8][4] = {};
  for (int key0 = s.begin(batch, first) / tile * tile; key0 < s.keys && key0 < first + tile + s.ahead(); key0 += tile) {
    __syncthreads();
    k.load({s.key_head(batch, kv), s.kv_cols, s.keys, h.dim}, key0);
    v.load({s.value_head(batch, kv), s.kv_cols, s.keys, h.dim}, key0);
    wait_for_tiles();
    unsigned bits[2] = {~0U, ~0U};
    if (h.dropout.active()) draw_queries(draws, query, key0, bits);
    constexpr int half = tile / 2;
#pragma unroll
    for (int part = 0; part < tile; part += half) {
      float scores[half / 8][4] = {}, dscores[half / 8][4] = {};
      products(scores, q, warp_row, k, part);
      products(dscores, g, warp_row, v, part);
#pragma unroll
      for (int n = 0; n < half / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = e / 2, key = key0 + part + n * 8 + lane % 4 * 2 + e % 2;
          const bool seen = s.sees(begin[i], query[i], key) && query[i] < h.sequence;
          const float weight = seen ? exp2f(scores[n][e] * scale - log_sum[i]) : 0.0F;
          const float kept = (bits[i] >> (2 * (part / 8 + n) + e % 2) & 1U) != 0 ? kept_scale : 0.0F;
          dscores[n][e] = weight * (kept * dscores[n][e] - delta[i]);
        }
      }
      add_products<size>(acc, dscores, k, part);
    }
  }
  const auto factor = static_cast<float>(h.scale);
  write<size>(target_of(dq, batch, head * h.dim, h.sequence, h.dim), first + warp_row, acc, {factor, factor});
}

// The columns of a head's gradients are divided over this many blocks, because the registers hold those of 128.
template <int size>
constexpr int column_parts = size > 128 ? 2 : 1;

// One block handles a tile of keys of one key-value head, and all columns of their gradients or a part of them: it adds over
// that head's query heads and later queries, in order. G: the gradient's type, bf16 or float.
template <int size, class G>
__global__ void __launch_bounds__(threads) dkv_kernel(Segment<bf16> s, Outputs<bf16, float> in, Gradient<G> dkv) {
  extern __shared__ uint4 memory[];
  const Heads& h = s.heads;
  __shared__ float log_sum[tile], delta[tile];
  __shared__ int begin[tile];
  const Tile<size> k(reinterpret_cast<bf16*>(memory), 0), v(k.at, 1), q(k.at, 2), g(k.at, 3);
  constexpr int parts = column_parts<size>, cols = size / parts;
  const int first = blockIdx.x / parts * tile, first_col = blockIdx.x % parts * cols, kv = blockIdx.y, batch = blockIdx.z;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const float scale = static_cast<float>(h.scale) * log2_e, kept_scale = h.dropout.scale();
  k.load({s.key_head(batch, kv), s.kv_cols, s.keys, h.dim}, first);
  v.load({s.value_head(batch, kv), s.kv_cols, s.keys, h.dim}, first);

  float dk[cols / 8][4] = {}, dv[cols / 8][4] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    const Draws draws(s, batch, head);
    for (int query0 = max(0, first - s.ahead()) / tile * tile; query0 < h.sequence; query0 += tile) {
      if (s.begin(batch, query0) >= first + tile) break;  // no later query attends to a key of this tile
      __syncthreads();
      q.load({s.query_head(batch, head), s.q_cols, h.sequence, h.dim}, query0);
      g.load({in.dout_head(h, batch, head), h.heads * h.dim, h.sequence, h.dim}, query0);
      if (threadIdx.x < tile) {
        const int query = query0 + threadIdx.x;
        const std::int64_t at = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
        log_sum[threadIdx.x] = query < h.sequence ? in.log_sum_exp[at] * log2_e : 0.0F;
        delta[threadIdx.x] = query < h.sequence ? in.delta[at] : 0.0F;
        begin[threadIdx.x] = query < h.sequence ? s.begin(batch, query) : s.keys;  // attends to none
      }
      wait_for_tiles();
      constexpr int part_size = tile / 2;
#pragma unroll 1
      for (int part = 0; part < tile; part += part_size) {
        float scores[part_size / 8][4] = {}, dscores[part_size / 8][4] = {};
        products(scores, k, warp_row, q, part);
        products(dscores, v, warp_row, g, part);
        unsigned kept[part_size / 8][4];
        if (h.dropout.active()) draw_keys(draws, first + warp_row, query0 + part, kept);
#pragma unroll
        for (int n = 0; n < part_size / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = part + n * 8 + lane % 4 * 2 + e % 2, key = first + warp_row + lane / 4 + e / 2 * 8;
            const bool seen = s.sees(begin[column], query0 + column, key);
            const float weight = seen ? exp2f(scores[n][e] * scale - log_sum[column]) : 0.0F;
            const float factor = !h.dropout.active() ? 1.0F : kept[n][e] != 0 ? kept_scale : 0.0F;
            dscores[n][e] = weight * (factor * dscores[n][e] - delta[column]);
            scores[n][e] = weight * factor;
          }
        }
        add_products<cols>(dv, scores, g, part, first_col);
        add_products<cols>(dk, dscores, q, part, first_col);
      }
    }
  }
  const auto factor = static_cast<float>(h.scale);
  const int own_dim = h.dim - first_col;
  write<cols>(target_of(dkv, batch, kv * h.dim + first_col, s.keys, own_dim), first + warp_row, dk, {factor, factor});
  write<cols>(target_of(dkv, batch, (h.kv_heads + kv) * h.dim + first_col, s.keys, own_dim), first + warp_row, dv,
              {1.0F, 1.0F});
}

// Q, K: the types of the gradients of queries and of keys and values
template <class Q, class K>
void backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, float* delta) {
  const auto segment = segment_of<bf16>(shape, args);
  const Outputs<bf16, float> of = outputs_of<bf16, bf16>(stream, shape, args, delta);
  const Gradient<Q> dq = query_gradient<Q>(shape, args);
  const Gradient<K> dkv = key_gradient<K>(shape, args);
  with_tile_size(shape.head_dim, [&](auto s) {
    constexpr int size = decltype(s)::value;
    start(dq_kernel<size, Q>, {shape.queries, shape.heads, shape.batch, bytes_of<size>(4)}, stream, segment, of, dq);
    const std::int64_t key_rows = ceil_div<std::int64_t>(shape.keys, tile) * tile * column_parts<size>;
    start(dkv_kernel<size, K>, {key_rows, shape.kv_heads, shape.batch, bytes_of<size>(4)}, stream, segment, of, dkv);
  });
}

}  // namespace

std::size_t attention_mma_backward_scratch(const SegmentShape& shape) {
  return static_cast<std::size_t>(shape.tokens() * shape.heads) * sizeof(float);
}

void attention_mma_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, void* scratch) {
  if (shape.tokens() == 0) return;
  auto* const delta = static_cast<float*>(scratch);
  if (args.dkv.dtype == DType::bf16) return backward<bf16, bf16>(stream, shape, args, delta);
  if (args.dq.dtype == DType::f32) return backward<float, float>(stream, shape, args, delta);
  backward<bf16, float>(stream, shape, args, delta);
}

}  // namespace pipetrain::cuda
