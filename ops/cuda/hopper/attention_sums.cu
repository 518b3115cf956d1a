#include "ops/cuda/hopper/attention_sums.hpp"

#include "ops/cuda/hopper/attention_backward.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

constexpr int block_threads = 256;

// Sum over the lanes that hold a row of so many elements, eight each.
template <int HeadDim>
__device__ __forceinline__ float row_sum(float part) {
#pragma unroll
  for (int away = HeadDim / 16; away > 0; away /= 2) part += __shfl_xor_sync(~0U, part, away);
  return part;
}

struct Rows {
  const void *dout, *out;
  const float* log_sum_exp;
  const void* keys;  // from the first key head's column on
  std::int64_t key_cols;
};

template <class Tile>
struct QueryBlock {
  static constexpr int lanes = Tile::head_dim / 8, rows = block_threads / lanes, rounds = 4, all_rows = rows * rounds;
};

// Rows of dout and out of one query and head each, and zeros in as much of dQ's sums.
template <class Tile>
__device__ void begin_queries(const BackwardView& view, const Rows& in, std::int64_t block) {
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
    if constexpr (Tile::isolates) to[document * Tile::queries] = __int_as_float(view.documents[token]);
  }
}

template <class Tile>
__device__ void begin_keys(const BackwardView& view, const Rows& in, int block) {
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

// Where tiles begin to see none of a block's keys any more: documents do not begin earlier from one query to the next.
template <class Tile>
__device__ void find_end(const BackwardView& view, int sequence, int block) {
  const int* const documents = view.documents + static_cast<std::int64_t>(sequence) * view.queries;
  int low = 0, high = view.queries / Tile::queries;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (documents[middle * Tile::queries] < (block + 1) * Tile::keys) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  view.ends[sequence * (view.keys / Tile::keys) + block] = low;
}

template <class Tile>
__global__ void __launch_bounds__(block_threads) begin(const __grid_constant__ BackwardView view, Rows in) {
  wait_for_previous();
  const int key_blocks = view.batch * view.kv_heads * (view.keys / Tile::keys), block = static_cast<int>(blockIdx.x);
  if (block < key_blocks) {
    begin_keys<Tile>(view, in, block);
    if constexpr (Tile::isolates) {
      const int blocks = view.keys / Tile::keys, plane = block / blocks;
      if (threadIdx.x == 0 && plane % view.kv_heads == 0) find_end<Tile>(view, plane / view.kv_heads, block % blocks);
    }
  } else {
    begin_queries<Tile>(view, in, block - key_blocks);
  }
}

// Two neighbours of dQ, of which it may be one share of several.
__device__ __forceinline__ void put_sum(float* to, float2 sum, bool adds) {
  auto& there = *reinterpret_cast<float2*>(to);
  if (adds) sum.x += there.x, sum.y += there.y;
  there = sum;
}

// A thread has a part of the sums of one thread of the products, or of two: columns of both halves of a head, which turn
// together.
template <class Tile, bool turns>
__device__ void end_query_tile(const BackwardView& view, int block) {
  using Element = typename Tile::Element;
  constexpr int dim = Tile::head_dim;
  const int tiles = view.queries / Tile::queries, plane = block / tiles, head = plane % view.heads,
            sequence = plane / view.heads;
  const int group = static_cast<int>(threadIdx.x) / 128, thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
  const auto* const in = reinterpret_cast<const int4*>(view.query_sums) + block * 2LL * (Tile::sums / 4) + thread;
  int4 sums[2][4];
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int of_group = dim == 128 ? half : group, run = 4 * (dim == 128 ? group : half) + j;
      sums[half][j] = __ldcs(in + of_group * (Tile::sums / 4) + run * 128);
    }
  const int row = (dim == 64 ? 64 * group : 0) + 16 * (thread / 32) + lane / 4, position = block % tiles * Tile::queries + row;
  const int first_col = dim == 128 ? 32 * group : 0;  // of four runs of eight, and four in the other half
  const float* const inverse =
      view.statistics + (block * static_cast<std::int64_t>(Tile::statistics) + inverse_norm) * Tile::queries + row;
  const float units = integers_per_unit(view.largest + (sequence * view.kv_heads + head / view.group()) * 2);
  const std::int64_t token = static_cast<std::int64_t>(sequence) * view.queries + position;
  const std::int64_t to_col = token * view.dq_cols + head * dim + first_col;
  Turn turn[2][4];
  if constexpr (turns) {
#pragma unroll
    for (int low = 0; low < 2; ++low)
#pragma unroll
      for (int j = 0; j < 4; ++j) turn[low][j] = turn_of<Tile>(view, position + 8 * low, first_col + 8 * j + 2 * (lane % 4));
  }
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const float of_row = inverse[8 * low], unit = of_row == 0 ? 0.0F : view.scale / (units * of_row);
    const std::int64_t at_col = to_col + 8 * low * view.dq_cols;
    if (!turns && view.sums_dq) {
      float* const at = static_cast<float*>(view.dq) + at_col + 2 * (lane % 4);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int4& sum = sums[half][j];
          const float2 pair = low == 0 ? make_float2(sum.x * unit, sum.y * unit) : make_float2(sum.z * unit, sum.w * unit);
          put_sum(at + 8 * j + half * (dim / 2), pair, view.adds_dq);
        }
      continue;
    }
    TurnedWords words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const auto word = [&](const int4& sum) {
        return low == 0 ? pack<Element>(sum.x * unit, sum.y * unit) : pack<Element>(sum.z * unit, sum.w * unit);
      };
      words[j] = {word(sums[0][j]), word(sums[1][j])};
      if constexpr (turns) words[j] = turned_back<Element>(words[j], turn[low][j]);
    }
    Element* const at = static_cast<Element*>(view.dq) + at_col + 8 * (lane % 4);
    *reinterpret_cast<uint4*>(at) = run_of_lane(words[0].first, words[1].first, words[2].first, words[3].first);
    *reinterpret_cast<uint4*>(at + dim / 2) = run_of_lane(words[0].second, words[1].second, words[2].second, words[3].second);
  }
}

// dK that is there already, turned back: eight columns of each half of some rows.
template <class Tile>
__device__ void turn_keys(const BackwardView& view, int block) {
  using Element = typename Tile::Element;
  constexpr int lanes = Tile::head_dim / 16;  // of a row
  const std::int64_t at = block * static_cast<std::int64_t>(block_threads) + threadIdx.x, row = at / lanes;
  if (row >= static_cast<std::int64_t>(view.batch) * view.keys * view.kv_heads) return;
  const std::int64_t token = row / view.kv_heads, head = row % view.kv_heads;
  const int col = static_cast<int>(at % lanes) * 8, position = static_cast<int>(token % view.keys);
  auto* const first =
      reinterpret_cast<uint4*>(static_cast<Element*>(view.dkv) + token * view.dkv_cols + head * Tile::head_dim + col);
  auto* const second = reinterpret_cast<uint4*>(reinterpret_cast<Element*>(first) + Tile::head_dim / 2);
  uint4 low = *first, high = *second;
  std::uint32_t *a = &low.x, *b = &high.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const TurnedWords turned = turned_back<Element>({a[i], b[i]}, turn_of<Tile>(view, position, col + 2 * i));
    a[i] = turned.first, b[i] = turned.second;
  }
  *first = low, *second = high;
}

template <class Tile>
int query_blocks(const BackwardView& view) {
  return view.batch * view.heads * (view.queries / Tile::queries);
}
// None where end_keys() turns the sums of parts.
template <class Tile>
int key_blocks(const BackwardView& view) {
  if (view.cos_sin == nullptr || view.parts > 1) return 0;
  const std::int64_t threads = static_cast<std::int64_t>(view.batch) * view.keys * view.kv_heads * Tile::head_dim / 16;
  return static_cast<int>(blocks_for(threads, block_threads));
}

// One block a tile of queries, and those of turn_keys(). All that a thread reads is in flight together.
template <class Tile, bool turns>
__global__ void __launch_bounds__(block_threads, turns ? 2 : 4)
    end_queries(const __grid_constant__ BackwardView view, int of_keys) {
  wait_for_previous();
  const int block = static_cast<int>(blockIdx.x);
  if (!turns || block >= of_keys) return end_query_tile<Tile, turns>(view, block - of_keys);
  turn_keys<Tile>(view, block);
}

// dK and dV of the parts, added in their order. A thread has four columns of each half of a head.
template <class Tile>
__global__ void __launch_bounds__(block_threads) end_keys(const __grid_constant__ BackwardView view) {
  using Element = typename Tile::Element;
  constexpr int dim = Tile::head_dim;
  const std::int64_t planes = static_cast<std::int64_t>(view.batch) * view.sum_rows * view.kv_heads * 2;
  const std::int64_t at = blockIdx.x * static_cast<std::int64_t>(block_threads) + threadIdx.x, plane = at / (dim / 8);
  wait_for_previous();
  if (plane >= planes) return;
  const int col = static_cast<int>(at % (dim / 8)) * 4;
  const auto sum_of = [&](int from) {
    const auto* const parts = reinterpret_cast<const float4*>(view.key_sums) + (plane * dim + from) / 4;
    float4 sum = *parts;
    for (int part = 1; part < view.parts; ++part) {
      const float4 more = parts[part * planes * (dim / 4)];
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    return sum;
  };
  const float4 first = sum_of(col), second = sum_of(col + dim / 2);
  const std::int64_t heads = 2LL * view.kv_heads, row = plane / heads, head = plane % heads;  // keys' heads, then values'
  const std::int64_t to_row = row / view.sum_rows * view.dkv_rows + row % view.sum_rows, to_col = head * dim + col;
  if (view.added != nullptr) {
    auto* const to = reinterpret_cast<float4*>(view.added + to_row * heads * dim + to_col);
    const auto add = [](float4& there, const float4& sum) {
      there = make_float4(there.x + sum.x, there.y + sum.y, there.z + sum.z, there.w + sum.w);
    };
    add(to[0], first), add(to[dim / 8], second);
    return;
  }
  TurnedWords low{pack<Element>(first.x, first.y), pack<Element>(second.x, second.y)},
      high{pack<Element>(first.z, first.w), pack<Element>(second.z, second.w)};
  if (head < view.kv_heads && view.cos_sin != nullptr) {
    const int position = static_cast<int>(row % view.sum_rows);
    low = turned_back<Element>(low, turn_of<Tile>(view, position, col));
    high = turned_back<Element>(high, turn_of<Tile>(view, position, col + 2));
  }
  Element* const to = static_cast<Element*>(view.dkv) + to_row * view.dkv_cols + to_col;
  *reinterpret_cast<uint2*>(to) = make_uint2(low.first, high.first);
  *reinterpret_cast<uint2*>(to + dim / 2) = make_uint2(low.second, high.second);
}

}  // namespace

template <class Tile>
void begin_sums(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args) {
  using Element = typename Tile::Element;
  cudaMemsetAsync(view.largest, 0, static_cast<std::size_t>(view.batch * view.kv_heads * 2 + 1) * sizeof(unsigned), stream);
  const std::int64_t rows = static_cast<std::int64_t>(view.batch) * view.queries * view.heads;
  const std::int64_t blocks = view.batch * view.kv_heads * (view.keys / Tile::keys) + rows / QueryBlock<Tile>::all_rows;
  const std::int64_t key_cols = args.kv.cols(), first_col = key_cols - 2 * view.kv_heads * Tile::head_dim;
  const Rows in{args.dout.data, args.out.data, static_cast<const float*>(args.log_sum_exp.data),
                static_cast<const Element*>(args.kv.data) + first_col, key_cols};
  launch(stream, begin<Tile>, static_cast<unsigned>(blocks), block_threads, 0, view, in);
}

template <class Tile>
void end_sums(cudaStream_t stream, const BackwardView& view) {
  const int of_keys = key_blocks<Tile>(view), blocks = of_keys + query_blocks<Tile>(view);
  const auto kernel = view.cos_sin == nullptr ? end_queries<Tile, false> : end_queries<Tile, true>;
  launch(stream, kernel, static_cast<unsigned>(blocks), block_threads, 0, view, of_keys);
  if (view.parts == 1) return;
  const std::int64_t pairs = static_cast<std::int64_t>(view.batch) * view.sum_rows * view.kv_heads * 2 * Tile::head_dim / 8;
  launch(stream, end_keys<Tile>, blocks_for(pairs, block_threads), block_threads, 0, view);
}

#define PIPETRAIN_SUMS(head_dim, Element, isolates)                                              \
  template void begin_sums<Tile<head_dim, Element, isolates>>(cudaStream_t, const BackwardView&, \
                                                              const AttentionBackwardArgs&);     \
  template void end_sums<Tile<head_dim, Element, isolates>>(cudaStream_t, const BackwardView&);
PIPETRAIN_SUMS(64, __nv_bfloat16, false)
PIPETRAIN_SUMS(64, __nv_bfloat16, true)
PIPETRAIN_SUMS(128, __nv_bfloat16, false)
PIPETRAIN_SUMS(128, __nv_bfloat16, true)
PIPETRAIN_SUMS(64, __half, false)
PIPETRAIN_SUMS(64, __half, true)
PIPETRAIN_SUMS(128, __half, false)
PIPETRAIN_SUMS(128, __half, true)
#undef PIPETRAIN_SUMS

}  // namespace pipetrain::cuda::hopper
