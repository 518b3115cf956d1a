// Reads dout and out [batch queries, Hq D], log_sum_exp [batch, Hq, queries] and the keys and values, once each. Writes
// statistics [batch, Hq, queries / tile, 3 or 4, tile] and largest [batch, Hkv, 2], whose product bounds dQ: see
// integers_per_unit().
#include "ops/cuda/hopper/attention_backward.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

constexpr int block_threads = 256;

// Sums over the lanes that hold a row of HeadDim elements, eight each.
template <int HeadDim>
__device__ __forceinline__ float row_sum(float part) {
#pragma unroll
  for (int away = HeadDim / 16; away > 0; away /= 2) part += __shfl_xor_sync(~0U, part, away);
  return part;
}

// The input rows.
struct Rows {
  const void *dout, *out;
  const float* log_sum_exp;
  const void* keys;  // at the first key head's column
  std::int64_t key_cols;
};

template <class Tile>
struct QueryBlock {
  static constexpr int lanes = Tile::head_dim / 8, rows = block_threads / lanes, rounds = 4, all_rows = rows * rounds;
};

// Writes the statistics of some rows, each of one query and head, and zeroes the same share of dQ's sums.
template <class Tile>
__device__ void preprocess_queries(const BackwardView& view, const Rows& in, std::int64_t block) {
  using Element = typename Tile::Element;
  using Q = QueryBlock<Tile>;
  const int part = static_cast<int>(threadIdx.x) % Q::lanes;
  const std::int64_t first = block * Q::all_rows + threadIdx.x / Q::lanes;
  uint4 dout[Q::rounds], out[Q::rounds];
#pragma unroll
  for (int i = 0; i < Q::rounds; ++i) {
    const std::int64_t at = (first + i * Q::rows) * Q::lanes + part;
    dout[i] = static_cast<const uint4*>(in.dout)[at], out[i] = static_cast<const uint4*>(in.out)[at];
    int4* const zeros = reinterpret_cast<int4*>(view.query_sums + (block * Q::all_rows + i * Q::rows) * Tile::head_dim);
    zeros[threadIdx.x] = zeros[threadIdx.x + block_threads] = make_int4(0, 0, 0, 0);
  }
#pragma unroll
  for (int i = 0; i < Q::rounds; ++i) {
    const std::uint32_t *a = &dout[i].x, *b = &out[i].x;
    float dot = 0, square = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 x = unpack<Element>(a[j]), y = unpack<Element>(b[j]);
      dot += x.x * y.x + x.y * y.y, square += x.x * x.x + x.y * x.y;
    }
    dot = row_sum<Tile::head_dim>(dot), square = row_sum<Tile::head_dim>(square);
    if (part != 0) continue;
    const std::int64_t row = first + i * Q::rows, token = row / view.heads, head = row % view.heads;
    const std::int64_t plane = token / view.queries * view.heads + head, query = token % view.queries;
    const float sum = in.log_sum_exp[plane * view.queries + query], norm = sqrtf(square);
    float* const to = view.statistics +
                      (plane * (view.queries / Tile::queries) + query / Tile::queries) * Tile::statistics * Tile::queries +
                      query % Tile::queries;
    to[log2_sum * Tile::queries] = sum * log2_e;
    to[delta * Tile::queries] = dot;
    const float inverse = norm > 0 ? 1 / fmaxf(norm, 1e-18F) : 0;
    to[inverse_norm * Tile::queries] = isfinite(norm) && isfinite(sum) ? inverse : nanf("");
    if constexpr (Tile::has_begins) {
      const int first_key = view.begin_of(static_cast<int>(token / view.queries), static_cast<int>(query));
      to[begin * Tile::queries] = __int_as_float(first_key);
    }
  }
}

// Raises the largest key element and value row of a key-value head to those of one block.
template <class Tile>
__device__ void preprocess_keys(const BackwardView& view, const Rows& in, int block) {
  using Element = typename Tile::Element;
  constexpr int lanes = Tile::head_dim / 8, rows = block_threads / lanes, rounds = Tile::keys / rows;
  const int blocks = view.keys / Tile::keys, plane = block / blocks, sequence = plane / view.kv_heads;
  const std::int64_t first =
      static_cast<std::int64_t>(sequence) * view.kv_rows + block % blocks * Tile::keys + threadIdx.x / lanes;
  const Element* const keys = static_cast<const Element*>(in.keys) + first * in.key_cols +
                              plane % view.kv_heads * Tile::head_dim + threadIdx.x % lanes * 8;
  uint4 key[rounds], value[rounds];
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const Element* const row = keys + i * rows * in.key_cols;
    key[i] = *reinterpret_cast<const uint4*>(row);
    value[i] = *reinterpret_cast<const uint4*>(row + view.kv_heads * Tile::head_dim);
  }
  unsigned largest_key = 0, largest_value = 0;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const std::uint32_t *a = &key[i].x, *b = &value[i].x;
    float square = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 k = unpack<Element>(a[j]), v = unpack<Element>(b[j]);
      largest_key = max(largest_key, max(magnitude(k.x), magnitude(k.y)));
      square += v.x * v.x + v.y * v.y;
    }
    largest_value = max(largest_value, magnitude(row_sum<Tile::head_dim>(square)));
  }
  largest_key = __reduce_max_sync(~0U, largest_key), largest_value = __reduce_max_sync(~0U, largest_value);
  if (threadIdx.x % 32 == 0) {
    atomicMax(view.largest + plane * 2, largest_key);
    atomicMax(view.largest + plane * 2 + 1, largest_value);
  }
}

// Finds the first tile whose queries see none of a block's keys any more: no query sees an earlier key than the query before
// it.
template <class Tile>
__device__ void find_end(const BackwardView& view, int sequence, int block) {
  int low = 0, high = view.queries / Tile::queries;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (view.begin_of(sequence, middle * Tile::queries) < (block + 1) * Tile::keys) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  view.ends[sequence * (view.keys / Tile::keys) + block] = low;
}

template <class Tile>
__global__ void __launch_bounds__(block_threads) preprocess_kernel(const __grid_constant__ BackwardView view, Rows in) {
  wait_for_previous();
  const int key_blocks = view.batch * view.kv_heads * (view.keys / Tile::keys), block = static_cast<int>(blockIdx.x);
  if (block < key_blocks) {
    preprocess_keys<Tile>(view, in, block);
    if constexpr (Tile::has_begins) {
      const int blocks = view.keys / Tile::keys, plane = block / blocks;
      if (threadIdx.x == 0 && plane % view.kv_heads == 0) find_end<Tile>(view, plane / view.kv_heads, block % blocks);
    }
  } else {
    preprocess_queries<Tile>(view, in, block - key_blocks);
  }
}

}  // namespace

template <class Tile>
void preprocess(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args) {
  using Element = typename Tile::Element;
  cudaMemsetAsync(view.largest, 0, static_cast<std::size_t>(view.batch * view.kv_heads * 2 + 1) * sizeof(unsigned), stream);
  const std::int64_t rows = static_cast<std::int64_t>(view.batch) * view.queries * view.heads;
  const std::int64_t blocks = view.batch * view.kv_heads * (view.keys / Tile::keys) + rows / QueryBlock<Tile>::all_rows;
  const std::int64_t key_cols = args.kv.cols(), first_col = key_cols - 2 * view.kv_heads * Tile::head_dim;
  const Rows in{args.dout.data, args.out.data, static_cast<const float*>(args.log_sum_exp.data),
                static_cast<const Element*>(args.kv.data) + first_col, key_cols};
  launch(stream, preprocess_kernel<Tile>, static_cast<unsigned>(blocks), block_threads, 0, view, in);
}

#define PIPETRAIN_TILE(head_dim, Element, has_begins)                                              \
  template void preprocess<Tile<head_dim, Element, has_begins>>(cudaStream_t, const BackwardView&, \
                                                                const AttentionBackwardArgs&);
PIPETRAIN_FOR_EACH_TILE(PIPETRAIN_TILE)
#undef PIPETRAIN_TILE

}  // namespace pipetrain::cuda::hopper
