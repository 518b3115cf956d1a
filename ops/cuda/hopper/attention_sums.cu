#include "ops/cuda/hopper/attention_sums.hpp"

#include "ops/cuda/hopper/attention_backward.cuh"

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
    dout[i] = __ldg(static_cast<const uint4*>(in.dout) + at), out[i] = __ldg(static_cast<const uint4*>(in.out) + at);
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
    key[i] = __ldg(reinterpret_cast<const uint4*>(row));
    value[i] = __ldg(reinterpret_cast<const uint4*>(row + view.kv_heads * Tile::head_dim));
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

// One block a tile of queries; a thread has the sums of one thread of the products.
template <class Tile>
__global__ void __launch_bounds__(block_threads) end_queries(const __grid_constant__ BackwardView view) {
  using Element = typename Tile::Element;
  constexpr int dim = Tile::head_dim;
  const int tiles = view.queries / Tile::queries, plane = static_cast<int>(blockIdx.x) / tiles, head = plane % view.heads;
  const int group = static_cast<int>(threadIdx.x) / 128, thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
  const auto* const in =
      reinterpret_cast<const int4*>(view.query_sums) + (blockIdx.x * 2LL + group) * (Tile::sums / 4) + thread;
  const int sequence = plane / view.heads, row = (dim == 64 ? 64 * group : 0) + 16 * (thread / 32) + lane / 4;
  const float* const inverse =
      view.statistics + (blockIdx.x * static_cast<std::int64_t>(Tile::statistics) + inverse_norm) * Tile::queries + row;
  const float units = integers_per_unit(view.largest + (sequence * view.kv_heads + head / view.group()) * 2);
  const auto unit = [&](float of_row) { return of_row == 0 ? 0.0F : view.scale / (units * of_row); };
  const float upper = unit(inverse[0]), lower = unit(inverse[8]);
  const std::int64_t token = static_cast<std::int64_t>(sequence) * view.queries + blockIdx.x % tiles * Tile::queries + row;
  Element* const to =
      static_cast<Element*>(view.dq) + token * view.dq_cols + head * dim + (dim == 128 ? 64 * group : 0) + 8 * (lane % 4);
  int4 sums[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] = __ldcs(in + i * 128);
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const auto high = [&](int j) { return pack<Element>(sums[i + j].x * upper, sums[i + j].y * upper); };
    const auto low = [&](int j) { return pack<Element>(sums[i + j].z * lower, sums[i + j].w * lower); };
    *reinterpret_cast<uint4*>(to + 8 * i) = run_of_lane(high(0), high(1), high(2), high(3));
    *reinterpret_cast<uint4*>(to + 8 * i + 8 * view.dq_cols) = run_of_lane(low(0), low(1), low(2), low(3));
  }
}

// dK and dV of the parts, added in their order. A thread has four columns.
template <class Tile>
__global__ void __launch_bounds__(block_threads) end_keys(const __grid_constant__ BackwardView view) {
  using Element = typename Tile::Element;
  constexpr int dim = Tile::head_dim;
  const std::int64_t quads_of_row = view.kv_heads * 2 * dim / 4;
  const std::int64_t quads_of_part = static_cast<std::int64_t>(view.batch) * view.sum_rows * quads_of_row;
  const std::int64_t quad = blockIdx.x * static_cast<std::int64_t>(block_threads) + threadIdx.x;
  if (quad >= quads_of_part) return;
  float4 sum = reinterpret_cast<const float4*>(view.key_sums)[quad];
  for (int part = 1; part < view.parts; ++part) {
    const float4 more = reinterpret_cast<const float4*>(view.key_sums)[part * quads_of_part + quad];
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }
  const std::int64_t row = quad / quads_of_row, col = quad % quads_of_row * 4;
  const std::int64_t to_row = row / view.sum_rows * view.dkv_rows + row % view.sum_rows;
  if (view.added != nullptr) {
    auto& there = *reinterpret_cast<float4*>(view.added + to_row * quads_of_row * 4 + col);
    const float4 before = there;
    there = make_float4(before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w);
    return;
  }
  Element* const to = static_cast<Element*>(view.dkv) + to_row * view.dkv_cols + col;
  *reinterpret_cast<uint2*>(to) = make_uint2(pack<Element>(sum.x, sum.y), pack<Element>(sum.z, sum.w));
}

}  // namespace

template <class Tile>
void begin_sums(cudaStream_t stream, const BackwardView& view, const HopperBackward& args) {
  using Element = typename Tile::Element;
  cudaMemsetAsync(view.largest, 0, static_cast<std::size_t>(view.batch * view.kv_heads) * 2 * sizeof(unsigned), stream);
  const std::int64_t rows = static_cast<std::int64_t>(view.batch) * view.queries * view.heads;
  const std::int64_t blocks = view.batch * view.kv_heads * (view.keys / Tile::keys) + rows / QueryBlock<Tile>::all_rows;
  const std::int64_t key_cols = args.kv.cols(), first_col = key_cols - 2 * view.kv_heads * Tile::head_dim;
  const Rows in{args.dout.data, args.out.data, static_cast<const float*>(args.log_sum_exp.data),
                static_cast<const Element*>(args.kv.data) + first_col, key_cols};
  begin<Tile><<<static_cast<unsigned>(blocks), block_threads, 0, stream>>>(view, in);
}

template <class Tile>
void end_sums(cudaStream_t stream, const BackwardView& view) {
  const int tiles = view.batch * view.heads * (view.queries / Tile::queries);
  end_queries<Tile><<<static_cast<unsigned>(tiles), block_threads, 0, stream>>>(view);
  if (view.parts == 1) return;
  const std::int64_t quads = static_cast<std::int64_t>(view.batch) * view.sum_rows * view.kv_heads * 2 * Tile::head_dim / 4;
  end_keys<Tile><<<static_cast<unsigned>((quads + block_threads - 1) / block_threads), block_threads, 0, stream>>>(view);
}

#define PIPETRAIN_SUMS(head_dim, Element, isolates)                                                                      \
  template void begin_sums<Tile<head_dim, Element, isolates>>(cudaStream_t, const BackwardView&, const HopperBackward&); \
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
