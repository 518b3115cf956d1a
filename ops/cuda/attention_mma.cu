// Causal attention of bf16 tensors on tensor cores, with dropout and documents, the same bits every time: where cuDNN, which is
// faster, computes something else (attention_cudnn.cpp). Heads of up to 128; multiples of 8. One block a tile of 64 queries (or
// keys, for their gradients), whose four warps take 16 rows each; sums are fp32 (Dao 2023). Fragments as PTX's
// mma.m16n8k16 and ldmatrix lay them out: a thread has rows lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next one.
#include "ops/cuda/attention.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 64;  // queries, and keys
constexpr int warp_rows = 16;
constexpr int threads = tile / warp_rows * 32;
constexpr float log2_e = 1.4426950408889634F, ln_2 = 0.6931471805599453F;

// c += a b, of 16 x 16 and 16 x 8.
__device__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ unsigned pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// 64 rows of one head in shared memory, padded so that eight rows' 16 bytes lie in different banks. Rows past the sequence and
// columns past the head's size are zero. `size`: columns there is room for, a multiple of 16.
template <int size>
struct Tile {
  static constexpr int stride = size + 8;
  static constexpr int elements = tile * stride;
  bf16* at;

  __device__ Tile(bf16* memory, int index) : at(memory + index * elements) {}

  __device__ void load(const bf16* head, std::int64_t row_stride, int first, const Heads& h) const {
    constexpr int chunks = size / 8;  // of 16 bytes
#pragma unroll 4
    for (int i = threadIdx.x; i < tile * chunks; i += threads) {
      const int row = i / chunks, col = i % chunks * 8;
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(at + row * stride + col));
      const bool there = first + row < h.sequence && col < h.dim;
      const bf16* from = head + (there ? (first + row) * row_stride + col : 0);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
    }
  }

  // A matrix of rows x columns from here, as the left factor: 16 x 16.
  __device__ void left(unsigned (&r)[4], int row, int col) const {
    const int lane = threadIdx.x % 32;
    four<false>(r, row + lane % 16, col + lane / 16 * 8);
  }
  // Two right factors of 16 x 8: rows of the tile are the columns of the factor; row, row + 8.
  __device__ void right_rows(unsigned (&r)[4], int row, int col) const {
    const int lane = threadIdx.x % 32;
    four<false>(r, row + lane / 16 * 8 + lane % 8, col + lane / 8 % 2 * 8);
  }
  // Two right factors of 16 x 8: rows of the tile are rows of the factor; columns col, col + 8.
  __device__ void right_cols(unsigned (&r)[4], int row, int col) const {
    const int lane = threadIdx.x % 32;
    four<true>(r, row + lane % 16, col + lane / 16 * 8);
  }

 private:
  template <bool transposed>
  __device__ void four(unsigned (&r)[4], int row, int col) const {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(at + row * stride + col));
    if constexpr (transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(from));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(from));
    }
  }
};

__device__ void wait_for_tiles() {
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;\n" ::);
  __syncthreads();
}

// scores [16, 8 n] = rows `row` .. of a, times rows `first` .. of b, transposed.
template <int size, int n>
__device__ void products(float (&scores)[n][4], const Tile<size>& a, int row, const Tile<size>& b, int first) {
#pragma unroll
  for (int k = 0; k < size; k += 16) {
    unsigned left[4];
    a.left(left, row, k);
#pragma unroll
    for (int pair = 0; pair < n / 2; ++pair) {
      unsigned right[4];
      b.right_rows(right, first + pair * 16, k);
      multiply_add(scores[2 * pair], left, right[0], right[1]);
      multiply_add(scores[2 * pair + 1], left, right[2], right[3]);
    }
  }
}

// acc [16, size] += weights [16, 8 n] times rows `first` .. of b.
template <int size, int n>
__device__ void add_products(float (&acc)[size / 8][4], const float (&weights)[n][4], const Tile<size>& b, int first) {
#pragma unroll
  for (int k = 0; k < n / 2; ++k) {
    const float(&low)[4] = weights[2 * k], (&high)[4] = weights[2 * k + 1];
    const unsigned left[4] = {pack(low[0], low[1]), pack(low[2], low[3]), pack(high[0], high[1]), pack(high[2], high[3])};
#pragma unroll
    for (int pair = 0; pair < size / 16; ++pair) {
      unsigned right[4];
      b.right_cols(right, first + k * 16, pair * 16);
      multiply_add(acc[2 * pair], left, right[0], right[1]);
      multiply_add(acc[2 * pair + 1], left, right[2], right[3]);
    }
  }
}

// This warp's 16 rows from `row` on.
template <int size>
__device__ void write(bf16* head, std::int64_t row_stride, int row, const Heads& h, const float (&acc)[size / 8][4],
                      const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = row + lane / 4 + 8 * i;
    if (at >= h.sequence) continue;
#pragma unroll
    for (int n = 0; n < size / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col >= h.dim) continue;
      *reinterpret_cast<unsigned*>(head + at * row_stride + col) =
          pack(acc[n][2 * i] * factor[i], acc[n][2 * i + 1] * factor[i]);
    }
  }
}

__device__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffU, value, 2));
}
__device__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

// Which of a query's eight keys 8 block .. 8 block + 7 are kept: bit by bit.
struct Draws {
  const Heads& h;
  std::uint32_t sample, plane;

  __device__ Draws(const Heads& heads, int batch, int head)
      : h(heads), sample(heads.dropout.first_sample + batch), plane(heads.dropout.first_plane + head) {}
  __device__ unsigned kept(int query, int block) const {
    const auto words = dropout_words(h.dropout, block, query, sample, plane);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) bits |= (dropout_draw(words, 0, i) < h.dropout.dropped ? 0U : 1U) << i;
    return bits;
  }
};

// Bits of the elements that a thread has of its two queries' scores with the tile's keys, two for each eight keys: a block of
// draws is eight keys of a query, so the four threads that share a query draw in turns.
__device__ void draw_queries(const Draws& draws, const int (&query)[2], int key0, unsigned (&bits)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned own[2] = {draws.kept(query[i], key0 / 8 + lane % 4), draws.kept(query[i], key0 / 8 + lane % 4 + 4)};
    bits[i] = 0;
#pragma unroll
    for (int n = 0; n < tile / 8; ++n) {
      const unsigned block = __shfl_sync(0xffffffffU, own[n / 4], (lane & ~3) + n % 4);
      bits[i] |= (block >> (lane % 4 * 2) & 3U) << (2 * n);
    }
  }
}

template <int size>
__global__ void __launch_bounds__(threads)
    forward_kernel(Heads h, const bf16* __restrict__ qkv, bf16* __restrict__ out, float* __restrict__ log_sum_exp) {
  extern __shared__ uint4 memory[];
  const Tile<size> q(reinterpret_cast<bf16*>(memory), 0), k(q.at, 1), v(q.at, 2);
  const int first = (gridDim.x - 1 - blockIdx.x) * tile, head = blockIdx.y, batch = blockIdx.z, kv = head / h.group();
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * warp_rows;
  const int query[2] = {first + warp_row + lane / 4, first + warp_row + lane / 4 + 8};
  const int begin[2] = {h.begin(batch, query[0]), h.begin(batch, query[1])};
  const Draws draws(h, batch, head);
  const float scale = static_cast<float>(h.scale) * log2_e;
  q.load(packed_head(qkv, h, batch, head), h.packed(), first, h);

  float acc[size / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (int key0 = h.begin(batch, first) / tile * tile; key0 <= first; key0 += tile) {
    __syncthreads();
    k.load(packed_head(qkv, h, batch, h.heads + kv), h.packed(), key0, h);
    v.load(packed_head(qkv, h, batch, h.heads + h.kv_heads + kv), h.packed(), key0, h);
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
          score = begin[i] <= key && key <= query[i] ? score * scale : -INFINITY;
          top = fmaxf(top, score);
        }
      }
      top = quad_max(top);
      base[i] = top == -INFINITY ? 0.0F : top;  // as yet no key may count for this query
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
    factor[i] = h.dropout.scale() / total[i];
    if (lane % 4 == 0 && query[i] < h.sequence) {
      log_sum_exp[(static_cast<std::int64_t>(batch) * h.heads + head) * h.sequence + query[i]] =
          (largest[i] + log2f(total[i])) * ln_2;
    }
  }
  write<size>(out + (static_cast<std::int64_t>(batch) * h.sequence * h.heads + head) * h.dim, h.heads * h.dim, first + warp_row,
              h, acc, factor);
}

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

// As draw_queries, where rows are keys and columns queries: a block of draws is one query with the eight keys that eight
// threads have, so each thread draws one block for two columns of eight queries.
template <int n>
__device__ void draw_keys(const Draws& draws, int key0, int query0, unsigned (&kept)[n][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int pair = 0; pair < n / 2; ++pair) {
    const unsigned own = draws.kept(query0 + pair * 16 + lane / 2, key0 / 8 + lane % 2);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int owner = (e / 4 * 8 + lane % 4 * 2 + e % 2) * 2 + e / 2 % 2;
      kept[2 * pair + e / 4][e % 4] = __shfl_sync(0xffffffffU, own, owner) >> (lane / 4) & 1U;
    }
  }
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

// Calls body(Constant<size>) for the columns that a tile of such heads takes.
template <class Body>
void with_tile_size(const AttentionShape& shape, Body body) {
  if (shape.head_dim <= 64) return body(Constant<64>{});
  return body(Constant<128>{});
}

struct Grid {
  std::int64_t heads;
  std::size_t shared;  // bytes
};

template <class Kernel, class... Arguments>
void launch(Kernel kernel, const Grid& of, const AttentionShape& shape, cudaStream_t stream, Arguments... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(of.shared));
  const dim3 grid(blocks_for(shape.sequence, tile), static_cast<unsigned>(of.heads), static_cast<unsigned>(shape.batch));
  kernel<<<grid, threads, of.shared, stream>>>(arguments...);
}

template <int size>
constexpr std::size_t bytes_of(int tiles) {
  return static_cast<std::size_t>(tiles) * Tile<size>::elements * sizeof(bf16);
}

}  // namespace

bool takes_mma_attention(const AttentionShape& shape) { return shape.head_dim <= 128 && shape.head_dim % 8 == 0; }

void attention_mma(cudaStream_t stream, const AttentionShape& shape, const AttentionArgs& args) {
  if (shape.tokens() == 0) return;
  with_tile_size(shape, [&](auto s) {
    constexpr int size = decltype(s)::value;
    launch(forward_kernel<size>, {shape.heads, bytes_of<size>(3)}, shape, stream, heads_of(shape, args),
           data_of<bf16>(args.qkv), data_of<bf16>(args.out), data_of<float>(args.log_sum_exp));
  });
}

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
    launch(dq_kernel<size>, {shape.heads, bytes_of<size>(4)}, shape, stream, heads, gradients);
    launch(dkv_kernel<size>, {shape.kv_heads, bytes_of<size>(4)}, shape, stream, heads, gradients);
  });
}

}  // namespace pipetrain::cuda
