// The gradients of attention_mma.cu, from the kept logarithms of its sums: one kernel for those of queries, one block a tile of
// 64, and one for those of keys and values, one block a tile of theirs. Every sum has one order, so the bits are the same every
// time (Dao 2023).
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/mma_dropout.cuh"

namespace pipetrain::cuda {
namespace {

// delta [batch, heads, sequence] = sum over the head of dout * out. One warp a token and head.
__global__ void delta_kernel(Heads h, std::int64_t rows, const bf16* __restrict__ dout, const bf16* __restrict__ out,
                             float* __restrict__ delta) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float sum = 0;
  for (int d = threadIdx.x % 32; d < h.dim; d += 32) sum += to_float(dout[row * h.dim + d]) * to_float(out[row * h.dim + d]);
  sum = warp_sum(sum);
  const std::int64_t token = row / h.heads, head = row % h.heads;
  const std::int64_t batch = token / h.sequence, position = token % h.sequence;
  if (threadIdx.x % 32 == 0) delta[(batch * h.heads + head) * h.sequence + position] = sum;
}

// What the two kernels of the backward read.
struct Gradients {
  const bf16 *dout, *qkv;
  const float *log_sum_exp, *delta;
  bf16* dqkv;

  __device__ const bf16* dout_head(const Heads& h, int batch, int head) const {
    return dout + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim;
  }
};

template <int size>
__global__ void __launch_bounds__(threads) dq_kernel(Heads h, Gradients in) {
  extern __shared__ uint4 memory[];
  const Tile<size> q(reinterpret_cast<bf16*>(memory), 0), g(q.at, 1), k(q.at, 2), v(q.at, 3);
  const int first = (gridDim.x - 1 - blockIdx.x) * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const Draws draws(h, batch, head);
  const float scale = static_cast<float>(h.scale) * log2_e, kept_scale = h.dropout.scale();
  int query[2], begin[2];
  float log_sum[2], delta[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    query[i] = first + warp_row + lane / 4 + 8 * i;
    begin[i] = h.begin(batch, query[i]);
    const std::int64_t at = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query[i];
    log_sum[i] = query[i] < h.sequence ? in.log_sum_exp[at] * log2_e : 0.0F;
    delta[i] = query[i] < h.sequence ? in.delta[at] : 0.0F;
  }
  q.load(packed_head(in.qkv, h, batch, head), h.packed(), first, h);
  g.load(in.dout_head(h, batch, head), h.heads * h.dim, first, h);

  float acc[size / 8][4] = {};
  for (int key0 = h.begin(batch, first) / tile * tile; key0 <= first; key0 += tile) {
    __syncthreads();
    k.load(packed_head(in.qkv, h, batch, h.heads + kv), h.packed(), key0, h);
    v.load(packed_head(in.qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), key0, h);
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
          const bool seen = begin[i] <= key && key <= query[i] && query[i] < h.sequence;
          const float weight = seen ? exp2f(scores[n][e] * scale - log_sum[i]) : 0.0F;
          const float kept = (bits[i] >> (2 * (part / 8 + n) + e % 2) & 1U) != 0 ? kept_scale : 0.0F;
          dscores[n][e] = weight * (kept * dscores[n][e] - delta[i]);
        }
      }
      add_products<size>(acc, dscores, k, part);
    }
  }
  const auto factor = static_cast<float>(h.scale);
  write<size>(packed_head(in.dqkv, h, batch, head), h.packed(), first + warp_row, h, acc, {factor, factor});
}

// One block a tile of keys of one key-value head: adds over that head's query heads and later queries, in order.
template <int size>
__global__ void __launch_bounds__(threads) dkv_kernel(Heads h, Gradients in) {
  extern __shared__ uint4 memory[];
  __shared__ float log_sum[tile], delta[tile];
  __shared__ int begin[tile];
  const Tile<size> k(reinterpret_cast<bf16*>(memory), 0), v(k.at, 1), q(k.at, 2), g(k.at, 3);
  const int first = blockIdx.x * tile, kv = blockIdx.y, batch = blockIdx.z;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const float scale = static_cast<float>(h.scale) * log2_e, kept_scale = h.dropout.scale();
  k.load(packed_head(in.qkv, h, batch, h.heads + kv), h.packed(), first, h);
  v.load(packed_head(in.qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), first, h);

  float dk[size / 8][4] = {}, dv[size / 8][4] = {};
  for (int head = kv * h.group(); head < (kv + 1) * h.group(); ++head) {
    const Draws draws(h, batch, head);
    for (int query0 = first; query0 < h.sequence; query0 += tile) {
      if (h.begin(batch, query0) >= first + tile) break;  // from here on no query sees a key of this tile
      __syncthreads();
      q.load(packed_head(in.qkv, h, batch, head), h.packed(), query0, h);
      g.load(in.dout_head(h, batch, head), h.heads * h.dim, query0, h);
      if (threadIdx.x < tile) {
        const int query = query0 + threadIdx.x;
        const std::int64_t at = (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query;
        log_sum[threadIdx.x] = query < h.sequence ? in.log_sum_exp[at] * log2_e : 0.0F;
        delta[threadIdx.x] = query < h.sequence ? in.delta[at] : 0.0F;
        begin[threadIdx.x] = query < h.sequence ? h.begin(batch, query) : h.sequence;  // sees nothing
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
            const bool seen = begin[column] <= key && key <= query0 + column;
            const float weight = seen ? exp2f(scores[n][e] * scale - log_sum[column]) : 0.0F;
            const float factor = !h.dropout.active() ? 1.0F : kept[n][e] != 0 ? kept_scale : 0.0F;
            dscores[n][e] = weight * (factor * dscores[n][e] - delta[column]);
            scores[n][e] = weight * factor;
          }
        }
        add_products<size>(dv, scores, g, part);
        add_products<size>(dk, dscores, q, part);
      }
    }
  }
  const auto factor = static_cast<float>(h.scale);
  write<size>(packed_head(in.dqkv, h, batch, h.heads + kv), h.packed(), first + warp_row, h, dk, {factor, factor});
  write<size>(packed_head(in.dqkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), first + warp_row, h, dv, {1.0F, 1.0F});
}

}  // namespace

std::size_t attention_mma_backward_scratch(const AttentionShape& shape) {
  return static_cast<std::size_t>(shape.tokens() * shape.heads) * sizeof(float);
}

void attention_mma_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args,
                            void* scratch) {
  if (shape.tokens() == 0) return;
  const Heads heads = heads_of(shape, args);
  const std::int64_t rows = shape.tokens() * shape.heads;
  auto* delta = static_cast<float*>(scratch);
  delta_kernel<<<blocks_for(rows, 8), 256, 0, stream>>>(heads, rows, data_of<bf16>(args.dout), data_of<bf16>(args.out), delta);
  const Gradients gradients{data_of<bf16>(args.dout), data_of<bf16>(args.qkv), data_of<float>(args.log_sum_exp), delta,
                            data_of<bf16>(args.dqkv)};
  with_tile_size(shape, [&](auto s) {
    constexpr int size = decltype(s)::value;
    start(dq_kernel<size>, {shape.heads, bytes_of<size>(4)}, shape, stream, heads, gradients);
    start(dkv_kernel<size>, {shape.kv_heads, bytes_of<size>(4)}, shape, stream, heads, gradients);
  });
}

}  // namespace pipetrain::cuda
