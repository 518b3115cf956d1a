// Causal attention of bf16 tensors on tensor cores, with dropout and documents and the same bits in every run,
// for attention that cuDNN, which is faster, cannot compute (attention_choice.cpp). Head sizes are multiples of
// 8 up to 256. A block handles a tile of 64 queries, and each of its four warps 16 rows of it; sums are fp32
// (Dao 2023). attention_mma_backward.cu has the gradients.
#include "ops/cuda/attention/mma_dropout.cuh"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {
namespace {

// Takes the maximum over the four threads that share a row.
__device__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}
__device__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

// Reads the rows of one head of an earlier result as sums over its keys, whose softmax has this log-sum-exp.
template <int size>
__device__ void continue_from(const bf16* head, std::int64_t row_stride, const float* log_sum_exp, const Heads& h,
                              const int (&query)[2], float (&acc)[size / 8][4], float (&largest)[2], float (&total)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (query[i] >= h.sequence) continue;
    largest[i] = log_sum_exp[query[i]] * log2_e;
    total[i] = lane % 4 == 0 ? 1.0F : 0.0F;  // the four threads of a row are summed
#pragma unroll
    for (int n = 0; n < size / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col >= h.dim) continue;
      const float2 values = unpack<bf16>(*reinterpret_cast<const unsigned*>(head + query[i] * row_stride + col));
      acc[n][2 * i] = values.x, acc[n][2 * i + 1] = values.y;
    }
  }
}

template <int size, Keys kind>
__global__ void __launch_bounds__(threads)
    forward_kernel(Segment<bf16> s, bf16* __restrict__ out, float* __restrict__ log_sum_exp) {
  constexpr bool sparse = kind == Keys::pattern;
  extern __shared__ uint4 memory[];
  const Heads& h = s.heads;
  const Tile<size> q(reinterpret_cast<bf16*>(memory), 0), k(q.at, 1), v(q.at, 2);
  const int first = (gridDim.x - 1 - blockIdx.x) * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  if (kind == Keys::added && first + tile + s.ahead() <= 0) return;  // no query of the tile sees a key
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const int query[2] = {first + warp_row + lane / 4, first + warp_row + lane / 4 + 8};
  const KeyReach own[2] = {s.reach<sparse>(batch, query[0]), s.reach<sparse>(batch, query[1])};
  const KeyReach lowest = s.reach<sparse>(batch, first);
  const Draws draws(s, batch, head);
  const float scale = static_cast<float>(h.scale) * log2_e;
  q.load({s.query_head(batch, head), s.q_cols, h.sequence, h.dim}, first);

  const auto own_out = [&] { return out + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim; };
  const auto own_sums = [&] { return log_sum_exp + (static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence; };
  float acc[size / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
  if constexpr (kind == Keys::added) continue_from<size>(own_out(), h.heads * h.dim, own_sums(), h, query, acc, largest, total);
  for (int key0 = s.first_tile<sparse, tile>(lowest); key0 < s.keys && key0 < first + tile + s.ahead();
       key0 = s.next_tile<sparse, tile>(lowest, key0)) {
    __syncthreads();
    k.load({s.key_head(batch, kv), s.kv_cols, s.keys, h.dim}, key0);
    v.load({s.value_head(batch, kv), s.kv_cols, s.keys, h.dim}, key0);
    wait_for_tiles();
    float scores[tile / 8][4] = {};
    products(scores, q, warp_row, k, 0);
    float base[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float top = largest[i];
#pragma unroll
      for (int n = 0; n < tile / 8; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int key = key0 + n * 8 + lane % 4 * 2 + j;
          float& score = scores[n][2 * i + j];
          score = s.sees<sparse>(own[i], query[i], key) ? score * scale : -INFINITY;
          top = fmaxf(top, score);
        }
      }
      top = quad_max(top);
      base[i] = top == -INFINITY ? 0.0F : top;  // possibly this query has attended to no key so far
      const float shrink = exp2f(largest[i] - base[i]);
      largest[i] = top;
      total[i] *= shrink;
#pragma unroll
      for (int n = 0; n < size / 8; ++n) acc[n][2 * i] *= shrink, acc[n][2 * i + 1] *= shrink;
    }
    unsigned bits[2] = {~0U, ~0U};
    if (h.dropout.active()) draw_queries(draws, query, key0, bits);
#pragma unroll
    for (int n = 0; n < tile / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float weight = exp2f(scores[n][e] - base[e / 2]);
        total[e / 2] += weight;
        scores[n][e] = (bits[e / 2] >> (2 * n + e % 2) & 1U) != 0 ? weight : 0.0F;
      }
    }
    add_products<size>(acc, scores, v, 0);
  }
  float factor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    total[i] = quad_sum(total[i]);
    factor[i] = total[i] > 0 ? h.dropout.scale() / total[i] : 0.0F;  // the query may attend to no key of the segment
    if (lane % 4 == 0 && query[i] < h.sequence) own_sums()[query[i]] = (largest[i] + log2f(total[i])) * ln_2;
  }
  write<size>(Target<bf16>{own_out(), h.heads * h.dim, h.sequence, h.dim}, first + warp_row, acc, factor);
}

template <Keys kind>
void run(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args) {
  with_tile_size(shape.head_dim, [&](auto s) {
    constexpr int size = decltype(s)::value;
    start(forward_kernel<size, kind>, {shape.queries, shape.heads, shape.batch, bytes_of<size>(3)}, stream,
          segment_of<bf16>(shape, args), data_of<bf16>(args.out), data_of<float>(args.log_sum_exp));
  });
}

}  // namespace

void attention_mma(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args) {
  if (shape.tokens() == 0) return;
  shape.is_sparse() ? run<Keys::pattern>(stream, shape, args) : run<Keys::window>(stream, shape, args);
}

void add_attention_mma(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args) {
  if (shape.tokens() > 0) run<Keys::added>(stream, shape, args);
}

}  // namespace pipetrain::cuda
