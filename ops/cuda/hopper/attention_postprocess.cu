// Reads query_sums [batch, Hq, query tiles, boxes, 64 * 64] i32 and key_sums [parts, batch keys, Hkv (D + V)] f32. Writes dQ
// [batch queries, Hq D], and dK and dV [batch keys, Hkv (D + V)], as columns of wider matrices where dq_cols and dkv_cols say
// so.
#include "ops/cuda/hopper/attention_backward.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda::hopper {
namespace {

constexpr int block_threads = 256;

// Writes two adjacent elements of dQ, or adds them if this is one share of several.
__device__ __forceinline__ void put_sum(float* to, float2 sum, bool adds) {
  auto& there = *reinterpret_cast<float2*>(to);
  if (adds) sum.x += there.x, sum.y += there.y;
  there = sum;
}

// The blocks that convert a tile of queries. Half of the last one has nothing to do where a half of a head has three times 32
// columns.
template <class Tile>
constexpr int blocks_each = Tile::columns > 128 ? 2 : 1;

// A thread has part of the sums of one thread of the products, or of two: columns of both halves of a head,
// which rotate together.
template <class Tile, bool rotates>
__device__ void convert_query_tile(const BackwardView& view, int block) {
  using Element = typename Tile::Element;
  constexpr int dim = Tile::head_dim, columns = Tile::columns;
  const int part = block % blocks_each<Tile>, tiles = query_tiles<Tile>(view);
  block /= blocks_each<Tile>;
  const int plane = block / tiles, head = plane % view.heads, sequence = plane / view.heads;
  const int group = static_cast<int>(threadIdx.x) / 128, quarter = 2 * part + group,
            thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
  if (columns > 64 && quarter * 64 >= columns) return;
  const int first_col = columns == 64 ? 0 : 32 * quarter;  // four ranges of eight columns, and four in the other half
  const auto* const in = reinterpret_cast<const int4*>(view.query_sums) + block * std::int64_t{Tile::sums / 4} + thread;
  int4 sums[2][4];
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = first_col + half * (columns / 2) + 8 * j, box = columns == 64 ? group : column / 64;
      sums[half][j] = __ldcs(in + box * (Tile::sums_of_box / 4) + column % 64 / 8 * 128);
    }
  const int row = (dim == 64 ? 64 * group : 0) + 16 * (thread / 32) + lane / 4, position = block % tiles * Tile::queries + row;
  const bool in_head = first_col + columns / 2 < dim;  // those in the other half
  const float* const inverse =
      view.statistics + (block * static_cast<std::int64_t>(Tile::statistics) + inverse_norm) * Tile::queries + row;
  const float units = integers_per_unit(view.largest + (sequence * view.kv_heads + head / view.group()) * 2);
  const std::int64_t token = static_cast<std::int64_t>(sequence) * view.queries + position;
  const std::int64_t to_col = token * view.dq_cols + head * dim + first_col;
  Rotation rotations[2][4];
  if constexpr (rotates) {
#pragma unroll
    for (int low = 0; low < 2; ++low)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        rotations[low][j] =
            rotation_at<Tile>(view, min(position + 8 * low, view.queries - 1), first_col + 8 * j + 2 * (lane % 4));
  }
#pragma unroll
  for (int low = 0; low < 2; ++low) {
    const float of_row = inverse[8 * low], unit = of_row == 0 ? 0.0F : view.scale / (units * of_row);
    const std::int64_t at_col = to_col + 8 * low * view.dq_cols;
    const bool there = position + 8 * low < view.queries;
    if (!rotates && view.sums_dq) {
      if (!there) continue;
      float* const at = static_cast<float*>(view.dq) + at_col + 2 * (lane % 4);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (half == 1 && !in_head) continue;
          const int4& sum = sums[half][j];
          const float2 pair = low == 0 ? make_float2(sum.x * unit, sum.y * unit) : make_float2(sum.z * unit, sum.w * unit);
          put_sum(at + 8 * j + half * (columns / 2), pair, view.adds_dq);
        }
      continue;
    }
    RotatedWords words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const auto word = [&](const int4& sum) {
        return low == 0 ? pack<Element>(sum.x * unit, sum.y * unit) : pack<Element>(sum.z * unit, sum.w * unit);
      };
      words[j] = {word(sums[0][j]), word(sums[1][j])};
      if constexpr (rotates) words[j] = rotated_back<Element>(words[j], rotations[low][j]);
    }
    Element* const at = static_cast<Element*>(view.dq) + at_col + 8 * (lane % 4);
    const uint4 first = run_of_lane(words[0].first, words[1].first, words[2].first, words[3].first),
                second = run_of_lane(words[0].second, words[1].second, words[2].second, words[3].second);
    if (!there) continue;
    *reinterpret_cast<uint4*>(at) = first;
    if (in_head) *reinterpret_cast<uint4*>(at + columns / 2) = second;
  }
}

// Rotates back the finished dK: eight columns of each half of some rows.
template <class Tile>
__device__ void rotate_keys_back(const BackwardView& view, int block) {
  using Element = typename Tile::Element;
  constexpr int lanes = Tile::head_dim / 16;  // threads of a row
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
    const RotatedWords rotated = rotated_back<Element>({a[i], b[i]}, rotation_at<Tile>(view, position, col + 2 * i));
    a[i] = rotated.first, b[i] = rotated.second;
  }
  *first = low, *second = high;
}

template <class Tile>
int query_blocks(const BackwardView& view) {
  return view.batch * view.heads * query_tiles<Tile>(view) * blocks_each<Tile>;
}
// No rows if add_key_parts() rotates the sums of parts.
template <class Tile>
int rotated_key_blocks(const BackwardView& view) {
  if (view.cos_sin == nullptr || view.parts > 1) return 0;
  const std::int64_t threads = static_cast<std::int64_t>(view.batch) * view.keys * view.kv_heads * Tile::head_dim / 16;
  return static_cast<int>(blocks_for(threads, block_threads));
}

// One block handles a tile of queries or half of it, further blocks those of rotate_keys_back(). All loads of a thread are in
// flight together.
template <class Tile, bool rotates>
__global__ void __launch_bounds__(block_threads, rotates ? 2 : 4)
    convert_queries(const __grid_constant__ BackwardView view, int of_keys) {
  wait_for_previous();
  const int block = static_cast<int>(blockIdx.x);
  if (!rotates || block >= of_keys) return convert_query_tile<Tile, rotates>(view, block - of_keys);
  rotate_keys_back<Tile>(view, block);
}

// Adds up dK and dV of the parts in order. A thread has four columns of each half of a head.
template <class Tile>
__global__ void __launch_bounds__(block_threads) add_key_parts(const __grid_constant__ BackwardView view) {
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
  RotatedWords low{pack<Element>(first.x, first.y), pack<Element>(second.x, second.y)},
      high{pack<Element>(first.z, first.w), pack<Element>(second.z, second.w)};
  if (head < view.kv_heads && view.cos_sin != nullptr) {
    const int position = static_cast<int>(row % view.sum_rows);
    low = rotated_back<Element>(low, rotation_at<Tile>(view, position, col));
    high = rotated_back<Element>(high, rotation_at<Tile>(view, position, col + 2));
  }
  Element* const to = static_cast<Element*>(view.dkv) + to_row * view.dkv_cols + to_col;
  *reinterpret_cast<uint2*>(to) = make_uint2(low.first, high.first);
  *reinterpret_cast<uint2*>(to + dim / 2) = make_uint2(low.second, high.second);
}

}  // namespace

template <class Tile>
void postprocess(cudaStream_t stream, const BackwardView& view) {
  const int of_keys = rotated_key_blocks<Tile>(view), blocks = of_keys + query_blocks<Tile>(view);
  const auto kernel = view.cos_sin == nullptr ? convert_queries<Tile, false> : convert_queries<Tile, true>;
  launch(stream, kernel, static_cast<unsigned>(blocks), block_threads, 0, view, of_keys);
  if constexpr (Tile::head_dim == Tile::value_dim) {  // others have one part
    if (view.parts == 1) return;
    const std::int64_t pairs = static_cast<std::int64_t>(view.batch) * view.sum_rows * view.kv_heads * 2 * Tile::head_dim / 8;
    launch(stream, add_key_parts<Tile>, blocks_for(pairs, block_threads), block_threads, 0, view);
  }
}

#define PIPETRAIN_TILE(head_dim, Element, has_begins) \
  template void postprocess<Tile<head_dim, Element, has_begins>>(cudaStream_t, const BackwardView&);
PIPETRAIN_FOR_EACH_TILE(PIPETRAIN_TILE)
#undef PIPETRAIN_TILE

}  // namespace pipetrain::cuda::hopper
