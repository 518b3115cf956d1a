// The gradients of attention_mma.cu, from its saved log-sum-exp. One kernel computes those of queries, a block
// for each tile of 64 queries, and another those of keys and values, a block for each tile of keys. Every sum
// has a fixed order, so the bits are the same in every run (Dao 2023).
#include <algorithm>

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
template <int size, class G, Keys kind>
__global__ void __launch_bounds__(threads) dq_kernel(Segment<bf16> s, Outputs<bf16, float> in, Gradient<G> dq) {
  constexpr bool sparse = kind == Keys::pattern;
  extern __shared__ uint4 memory[];
  const Heads& h = s.heads;
  const Tile<size> q(reinterpret_cast<bf16*>(memory), 0), g(q.at, 1), k(q.at, 2), v(q.at, 3);
  const int first = (gridDim.x - 1 - blockIdx.x) * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  if (kind == Keys::added && first + tile + s.ahead() <= 0) return;  // no query of the tile sees a key
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const Draws draws(s, batch, head);
  const float scale = static_cast<float>(h.scale) * log2_e, kept_scale = h.dropout.scale();
  const KeyReach lowest = s.reach<sparse>(batch, first);
  int query[2];
  KeyReach own[2];
  float log_sum[2], delta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    query[i] = first + warp_row + lane / 4 + 8 * i;
    own[i] = s.reach<sparse>(batch, query[i]);
    const std::int64_t at = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query[i];
    log_sum[i] = query[i] < h.sequence ? in.log_sum_exp[at] * log2_e : 0.0F;
    delta[i] = query[i] < h.sequence ? in.delta[at] : 0.0F;
  }
  q.load({s.query_head(batch, head), s.q_cols, h.sequence, h.dim}, first);
  g.load({in.dout_head(h, batch, head), h.heads * h.dim, h.sequence, h.dim}, first);

  float acc[size / 8][4] = {};
  for (int key0 = s.first_tile<sparse, tile>(lowest); key0 < s.keys && key0 < first + tile + s.ahead();
       key0 = s.next_tile<sparse, tile>(lowest, key0)) {
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
          const bool seen = s.sees<sparse>(own[i], query[i], key) && query[i] < h.sequence;
          const float weight = seen ? exp2f(scores[n][e] * scale - log_sum[i]) : 0.0F;
          const float kept = (bits[i] >> (2 * (part / 8 + n) + e % 2) & 1U) != 0 ? kept_scale : 0.0F;
          dscores[n][e] = weight * (kept * dscores[n][e] - delta[i]);
        }
      }
      add_products<size>(acc, dscores, k, part);
    }
  }
  const auto factor = static_cast<float>(h.scale);
  write<size, kind>(target_of(dq, batch, head * h.dim, h.sequence, h.dim), first + warp_row, acc, {factor, factor});
}

// The columns of a head's gradients are divided over this many blocks, because the registers hold those of 128.
template <int size>
constexpr int column_parts = size > 128 ? 2 : 1;

// One block handles a tile of keys of one key-value head, and all columns of their gradients or a part of them: it adds over
// that head's query heads and later queries, in order. Of added keys, which all later queries see, it adds over one of this
// many shares of the queries, and writes it as the gradient of further sequences. G: the gradient's type, bf16 or float.
template <int size, class G, Keys kind>
__global__ void __launch_bounds__(threads) dkv_kernel(Segment<bf16> s, Outputs<bf16, float> in, Gradient<G> dkv, int shares) {
  constexpr bool sparse = kind == Keys::pattern;
  extern __shared__ uint4 memory[];
  const Heads& h = s.heads;
  __shared__ float log_sum[tile], delta[tile];
  __shared__ int begin[tile], document[sparse ? tile : 1];
  const Tile<size> k(reinterpret_cast<bf16*>(memory), 0), v(k.at, 1), q(k.at, 2), g(k.at, 3);
  constexpr int parts = column_parts<size>, cols = size / parts;
  const unsigned blocks = gridDim.x / static_cast<unsigned>(shares), share = kind == Keys::added ? blockIdx.x / blocks : 0;
  const unsigned place = kind == Keys::added ? blockIdx.x % blocks : blockIdx.x;
  const int first = place / parts * tile, first_col = place % parts * cols, kv = blockIdx.y, batch = blockIdx.z;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const float scale = static_cast<float>(h.scale) * log2_e, kept_scale = h.dropout.scale();
  k.load({s.key_head(batch, kv), s.kv_cols, s.keys, h.dim}, first);
  v.load({s.value_head(batch, kv), s.kv_cols, s.keys, h.dim}, first);

  int first_query = max(0, first - s.ahead()) / tile * tile, end_query = h.sequence;
  if constexpr (kind == Keys::added) {
    const int tiles = ceil_div(ceil_div(max(0, h.sequence - first_query), tile), shares);
    first_query += static_cast<int>(share) * tiles * tile;
    end_query = min(end_query, first_query + tiles * tile);
  }
  float dk[cols / 8][4] = {}, dv[cols / 8][4] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    const Draws draws(s, batch, head);
    for (int query0 = first_query; query0 < end_query; query0 += tile) {
      const KeyReach lowest = s.reach<sparse>(batch, query0);
      if (!s.shows_tile<sparse, tile>(lowest, first)) {
        if (s.is_past<sparse, tile>(lowest, first)) break;
        continue;
      }
      __syncthreads();
      q.load({s.query_head(batch, head), s.q_cols, h.sequence, h.dim}, query0);
      g.load({in.dout_head(h, batch, head), h.heads * h.dim, h.sequence, h.dim}, query0);
      if (threadIdx.x < tile) {
        const int query = query0 + threadIdx.x;
        const std::int64_t at = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
        log_sum[threadIdx.x] = query < h.sequence ? in.log_sum_exp[at] * log2_e : 0.0F;
        delta[threadIdx.x] = query < h.sequence ? in.delta[at] : 0.0F;
        const KeyReach own = query < h.sequence ? s.reach<sparse>(batch, query) : KeyReach{s.keys, s.keys};  // to none
        begin[threadIdx.x] = own.begin;
        if constexpr (sparse) document[threadIdx.x] = own.document;
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
            const KeyReach own{begin[column], sparse ? document[column] : 0};
            const bool seen = s.sees<sparse>(own, query0 + column, key);
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
  const int own_dim = h.dim - first_col, to = kind == Keys::added ? static_cast<int>(share * gridDim.z) + batch : batch;
  write<cols>(target_of(dkv, to, kv * h.dim + first_col, s.keys, own_dim), first + warp_row, dk, {factor, factor});
  write<cols>(target_of(dkv, to, (h.kv_heads + kv) * h.dim + first_col, s.keys, own_dim), first + warp_row, dv, {1.0F, 1.0F});
}

// Adds the shares [shares, batch, keys, cols] to the gradient of keys and values, in order.
template <class G>
__global__ void add_shares_kernel(const float* __restrict__ sums, int shares, std::int64_t count, int keys, int cols,
                                  Gradient<G> dkv) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const int batch = static_cast<int>(at / cols / keys), row = static_cast<int>(at / cols % keys),
            col = static_cast<int>(at % cols);
  G& to = *dkv.at(batch, col, row);
  float sum = to_float(to);
  for (int share = 0; share < shares; ++share) sum += sums[share * count + at];
  to = from_float<G>(sum);
}

std::int64_t key_rows(const SegmentShape& shape) { return ceil_div<std::int64_t>(shape.keys, tile) * tile; }

// Q, K: the types of the gradients of queries and of keys and values
template <class Q, class K, Keys kind>
void backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, float* delta) {
  const auto segment = segment_of<bf16>(shape, args);
  const Outputs<bf16, float> of = outputs_of<bf16, bf16>(stream, shape, args, delta);
  const Gradient<Q> dq = query_gradient<Q>(shape, args);
  const Gradient<K> dkv = key_gradient<K>(shape, args);
  with_tile_size(shape.head_dim, [&](auto s) {
    constexpr int size = decltype(s)::value;
    start(dq_kernel<size, Q, kind>, {shape.queries, shape.heads, shape.batch, bytes_of<size>(4)}, stream, segment, of, dq);
    start(dkv_kernel<size, K, kind>, {key_rows(shape) * column_parts<size>, shape.kv_heads, shape.batch, bytes_of<size>(4)},
          stream, segment, of, dkv, 1);
  });
}

// Returns how many shares of the queries give all multiprocessors work: a block of keys has at least four tiles of them.
std::int64_t shares_of(const SegmentShape& shape) {
  constexpr std::int64_t wanted_blocks = 1024;
  const std::int64_t blocks = key_rows(shape) / tile * shape.kv_heads * shape.batch;
  return std::clamp<std::int64_t>(wanted_blocks / blocks, 1, ceil_div<std::int64_t>(shape.queries, 4 * tile));
}
std::int64_t key_gradients(const SegmentShape& shape) { return shape.batch * shape.keys * shape.key_value_cols(); }

template <class Q, class K>
void add_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, float* delta) {
  const auto segment = segment_of<bf16>(shape, args);
  const Outputs<bf16, float> of = outputs_of<bf16, bf16>(stream, shape, args, delta);
  Gradient<Q> dq = query_gradient<Q>(shape, args);
  dq.adds = true;
  const std::int64_t shares = shares_of(shape), count = key_gradients(shape);
  const Gradient<float> sums{delta + shape.tokens() * shape.heads, shape.keys, shape.key_value_cols(), false};
  with_tile_size(shape.head_dim, [&](auto s) {
    constexpr int size = decltype(s)::value;
    start(dq_kernel<size, Q, Keys::added>, {shape.queries, shape.heads, shape.batch, bytes_of<size>(4)}, stream, segment, of,
          dq);
    start(dkv_kernel<size, float, Keys::added>,
          {key_rows(shape) * column_parts<size> * shares, shape.kv_heads, shape.batch, bytes_of<size>(4)}, stream, segment, of,
          sums, static_cast<int>(shares));
  });
  add_shares_kernel<K><<<blocks_for(count, 256), 256, 0, stream>>>(sums.to, static_cast<int>(shares), count,
                                                                   static_cast<int>(shape.keys), static_cast<int>(sums.cols),
                                                                   key_gradient<K>(shape, args));
}

// Calls body(Q, K).
template <class Body>
void with_gradient_types(const AttentionBackwardArgs& args, Body body) {
  if (args.dkv.dtype == DType::bf16) return body(bf16{}, bf16{});
  if (args.dq.dtype == DType::f32) return body(float{}, float{});
  body(bf16{}, float{});
}

}  // namespace

std::size_t attention_mma_backward_scratch(const SegmentShape& shape) {
  return static_cast<std::size_t>(shape.tokens() * shape.heads) * sizeof(float);
}

void attention_mma_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, void* scratch) {
  if (shape.tokens() == 0) return;
  with_gradient_types(args, [&](auto q, auto k) {
    using Q = decltype(q);
    using K = decltype(k);
    auto* const delta = static_cast<float*>(scratch);
    if (shape.is_sparse()) return backward<Q, K, Keys::pattern>(stream, shape, args, delta);
    backward<Q, K, Keys::window>(stream, shape, args, delta);
  });
}

std::size_t add_attention_mma_backward_scratch(const SegmentShape& shape) {
  return attention_mma_backward_scratch(shape) +
         static_cast<std::size_t>(shares_of(shape) * key_gradients(shape)) * sizeof(float);
}

void add_attention_mma_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args,
                                void* scratch) {
  if (shape.tokens() == 0) return;
  with_gradient_types(
      args, [&](auto q, auto k) { add_backward<decltype(q), decltype(k)>(stream, shape, args, static_cast<float*>(scratch)); });
}

}  // namespace pipetrain::cuda
