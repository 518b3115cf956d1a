// Reads dout and out [batch queries, Hq V], log_sum_exp [batch, Hq, queries] and the keys and values, once each. Writes
// statistics [batch, Hq, query tiles, 3 or 4, tile] and largest [batch, Hkv, 2], whose product bounds dQ: see
// integers_per_unit().
#include "ops/cuda/hopper/attention_backward.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

constexpr int block_threads = 256;

// Sums over the lanes that hold a row of this many columns, eight each.
template <int Columns>
__device__ __forceinline__ float row_sum(float part) {
#pragma unroll
  for (int away = Columns / 16; away > 0; away /= 2) part += __shfl_xor_sync(~0U, part, away);
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
  static constexpr int lanes = Tile::value_columns / 8, rows = block_threads / lanes, rounds = 4, all_rows = rows * rounds;
  static constexpr int zeros = rows * Tile::columns / 4 / block_threads;  // groups of four that a thread clears in a round
};

// One query and head; the queries of each sequence are counted up to the end of its last tile.
struct QueryRow {
  int sequence, query, head;
};
template <class Tile>
__device__ __forceinline__ QueryRow query_row(const BackwardView& view, int row) {
  const int queries = query_tiles<Tile>(view) * Tile::queries, token = row / view.heads;
  return {token / queries, token % queries, row % view.heads};
}

// Writes the statistics of some rows, each of one query and head, and zeroes the same share of dQ's sums.
template <class Tile>
__device__ void preprocess_queries(const BackwardView& view, const Rows& in, std::int64_t block) {
  using Element = typename Tile::Element;
  using Q = QueryBlock<Tile>;
  const int part = static_cast<int>(threadIdx.x) % Q::lanes;
  const int first = static_cast<int>(block) * Q::all_rows + static_cast<int>(threadIdx.x) / Q::lanes;
  uint4 dout[Q::rounds], out[Q::rounds];
#pragma unroll
  for (int i = 0; i < Q::rounds; ++i) {
    const QueryRow row = query_row<Tile>(view, first + i * Q::rows);
    if (row.query < view.queries && part < Tile::value_dim / 8) {
      const std::int64_t token = static_cast<std::int64_t>(row.sequence) * view.queries + row.query;
      const std::int64_t at = (token * view.heads + row.head) * (Tile::value_dim / 8) + part;
      dout[i] = static_cast<const uint4*>(in.dout)[at], out[i] = static_cast<const uint4*>(in.out)[at];
    } else {
      dout[i] = out[i] = make_uint4(0, 0, 0, 0);
    }
    int4* const zeros = reinterpret_cast<int4*>(view.query_sums + (block * Q::all_rows + i * Q::rows) * Tile::columns);
#pragma unroll
    for (int j = 0; j < Q::zeros; ++j) zeros[threadIdx.x + j * block_threads] = make_int4(0, 0, 0, 0);
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
    dot = row_sum<Tile::value_columns>(dot), square = row_sum<Tile::value_columns>(square);
    if (part != 0) continue;
    const QueryRow row = query_row<Tile>(view, first + i * Q::rows);
    const bool there = row.query < view.queries;
    const std::int64_t plane = static_cast<std::int64_t>(row.sequence) * view.heads + row.head;
    const float sum = there ? in.log_sum_exp[plane * view.queries + row.query] : INFINITY, norm = sqrtf(square);
    float* const to = view.statistics +
                      (plane * query_tiles<Tile>(view) + row.query / Tile::queries) * Tile::statistics * Tile::queries +
                      row.query % Tile::queries;
    to[log2_sum * Tile::queries] = sum * log2_e;
    to[delta * Tile::queries] = dot;
    const float inverse = norm > 0 ? 1 / fmaxf(norm, 1e-18F) : 0;
    to[inverse_norm * Tile::queries] = !there || (isfinite(norm) && isfinite(sum)) ? inverse : nanf("");
    if constexpr (Tile::has_begins) {
      const int first_key = there ? view.begin_of(row.sequence, row.query) : view.keys;
      to[begin * Tile::queries] = __int_as_float(first_key);
    }
  }
}

// Raises the largest key element and value row of a key-value head to those of one block.
template <class Tile>
__device__ void preprocess_keys(const BackwardView& view, const Rows& in, int block) {
  using Element = typename Tile::Element;
  constexpr int key_lanes = Tile::columns / 8, key_rounds = Tile::keys * key_lanes / block_threads;
  constexpr int lanes = Tile::value_columns / 8, rows = block_threads / lanes, rounds = Tile::keys / rows;
  const int blocks = key_blocks<Tile>(view), plane = block / blocks, sequence = plane / view.kv_heads,
            head = plane % view.kv_heads, thread = static_cast<int>(threadIdx.x);
  const int first_key = block % blocks * Tile::keys, there = view.keys - first_key;  // keys from the block's first on
  const Element* const keys =
      static_cast<const Element*>(in.keys) + (static_cast<std::int64_t>(sequence) * view.kv_rows + first_key) * in.key_cols;
  const Element* const values = keys + view.kv_heads * Tile::head_dim + head * Tile::value_dim;
  uint4 key[key_rounds], value[rounds];
#pragma unroll
  for (int i = 0; i < key_rounds; ++i) {
    const int at = i * block_threads + thread, row = at / key_lanes, lane = at % key_lanes;
    key[i] = make_uint4(0, 0, 0, 0);
    if (row >= there || lane >= Tile::head_dim / 8) continue;
    key[i] = *reinterpret_cast<const uint4*>(keys + row * in.key_cols + head * Tile::head_dim + lane * 8);
  }
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const int row = i * rows + thread / lanes, lane = thread % lanes;
    value[i] = make_uint4(0, 0, 0, 0);
    if (row >= there || lane >= Tile::value_dim / 8) continue;
    value[i] = *reinterpret_cast<const uint4*>(values + row * in.key_cols + lane * 8);
  }
  unsigned largest_key = 0, largest_value = 0;
#pragma unroll
  for (int i = 0; i < key_rounds; ++i) {
    const std::uint32_t* const words = &key[i].x;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 k = unpack<Element>(words[j]);
      largest_key = max(largest_key, max(magnitude(k.x), magnitude(k.y)));
    }
  }
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    const std::uint32_t* const words = &value[i].x;
    float square = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 v = unpack<Element>(words[j]);
      square += v.x * v.x + v.y * v.y;
    }
    largest_value = max(largest_value, magnitude(row_sum<Tile::value_columns>(square)));
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
  int low = 0, high = query_tiles<Tile>(view);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (view.begin_of(sequence, middle * Tile::queries) < (block + 1) * Tile::keys) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  view.ends[sequence * key_blocks<Tile>(view) + block] = low;
}

template <class Tile>
__global__ void __launch_bounds__(block_threads) preprocess_kernel(const __grid_constant__ BackwardView view, Rows in) {
  wait_for_previous();
  const int of_keys = view.batch * view.kv_heads * key_blocks<Tile>(view), block = static_cast<int>(blockIdx.x);
  if (block < of_keys) {
    preprocess_keys<Tile>(view, in, block);
    if constexpr (Tile::has_begins) {
      const int blocks = key_blocks<Tile>(view), plane = block / blocks;
      if (threadIdx.x == 0 && plane % view.kv_heads == 0) find_end<Tile>(view, plane / view.kv_heads, block % blocks);
    }
  } else {
    preprocess_queries<Tile>(view, in, block - of_keys);
  }
}

}  // namespace

template <class Tile>
void preprocess(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args) {
  using Element = typename Tile::Element;
  cudaMemsetAsync(view.largest, 0, static_cast<std::size_t>(view.batch * view.kv_heads * 2 + 1) * sizeof(unsigned), stream);
  const std::int64_t rows = static_cast<std::int64_t>(view.batch) * query_tiles<Tile>(view) * Tile::queries * view.heads;
  const std::int64_t blocks = view.batch * view.kv_heads * key_blocks<Tile>(view) + rows / QueryBlock<Tile>::all_rows;
  const std::int64_t key_cols = args.kv.cols(), first_col = key_cols - view.kv_heads * (Tile::head_dim + Tile::value_dim);
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
