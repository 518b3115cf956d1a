#include "ops/cuda/norm/head_norms.cuh"

#include <algorithm>

#include "ops/cuda/block_order.cuh"
#include "ops/cuda/rotate.cuh"
#include "ops/document_positions.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int unroll = 4;  // heads of a thread, whose loads are in flight together
constexpr int max_threads = 512;

// The angles of the rotation; cos_sin null: the heads do not rotate.
struct HeadAngles {
  const float* cos_sin;
  const int* documents;
};

// One column of blocks handles a token, as in rotary(). `lanes` threads share a head: each has N packs of W columns of the
// head's first half, and the columns of its second half that rotate with them.
template <class T, class TW, int W, int N>
__global__ void __launch_bounds__(max_threads)
    head_norms_kernel(T* qkv, HeadNormView<T, TW> queries, HeadNormView<T, TW> keys, HeadRows of, HeadAngles angles, int lanes,
                      float eps, float offset) {
  using R = Real<T>;
  wait_for_previous();
  const int lane = threadIdx.x % lanes, step = blockDim.x / lanes, packs = of.dim / (2 * W), heads = of.normed_heads();
  const int first_head = blockIdx.y * step * unroll + threadIdx.x / lanes;
  const std::int64_t token = block_from_end();
  T* const row = qkv + token * of.stride;
  Pack<T, W> in[unroll][N][2] = {};
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const int head = first_head + u * step;
    if (head >= heads) continue;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = lane + n * lanes;
      if (pack >= packs) continue;
      in[u][n][0] = load<W>(row + head * of.dim, pack);
      in[u][n][1] = load<W>(row + head * of.dim, packs + pack);
    }
  }
  const float* const cosines = angles.cos_sin == nullptr ? nullptr
                                                         : angles.cos_sin + position_of(token, of.sequence, angles.documents) *
                                                                                static_cast<std::int64_t>(of.dim);
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const int head = first_head + u * step;
    R squares = 0;
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < W; ++i) squares += static_cast<R>(in[u][n][half][i]) * in[u][n][half][i];
    squares = lanes_sum(squares, lanes);
    if (head >= heads) continue;
    const R inv = 1 / sqrt(squares / static_cast<R>(of.dim) + eps);
    const bool is_query = head < of.heads;
    const HeadNormView<T, TW>& norm = is_query ? queries : keys;
    const std::int64_t at = is_query ? token * of.heads + head : token * of.kv_heads + head - of.heads;
    if (lane == 0) norm.inv_rms[at] = static_cast<float>(inv);
    T *const kept = norm.input + at * of.dim, *const out = row + head * of.dim;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = lane + n * lanes;
      if (pack >= packs) continue;
      R normed[2][W];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Pack<T, W>& own = in[u][n][half];
        const auto weight = load<W>(norm.weight, half * packs + pack);
        reinterpret_cast<Pack<T, W>*>(kept)[half * packs + pack] = own;
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const R value = own[i] * inv * (static_cast<R>(weight[i]) + offset);
          normed[half][i] = to_float(from_float<T>(static_cast<float>(value)));
        }
      }
      if (cosines != nullptr) {
        const auto cosine = load<W>(cosines, pack), sine = load<W>(cosines + of.dim / 2, pack);
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const auto both = rotated(normed[0][i], normed[1][i], static_cast<R>(cosine[i]), static_cast<R>(sine[i]));
          normed[0][i] = both.x, normed[1][i] = both.y;
        }
      }
      store(out, pack, normed[0]);
      store(out, packs + pack, normed[1]);
    }
  }
}

}  // namespace

void head_norms(cudaStream_t stream, const SegmentShape& shape, const HeadNormsArgs& args) {
  check_head_size(shape);
  if (shape.tokens() == 0) return;
  const HeadRows rows = head_rows(shape);
  const bool rotates_whole = args.cos_sin && 2 * args.cos_sin->shape[2] == shape.head_dim;
  const HeadAngles angles{rotates_whole ? data_of<float>(*args.cos_sin) : nullptr, data_or_null<int>(args.documents)};
  const bool aligned = aligned16(args.qkv.data) && aligned16(args.queries) && aligned16(args.keys);
  with_types(args.qkv.dtype, args.queries.weight.dtype, "head_norms", [&](auto t, auto tw) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    with_width<T>(aligned && rows.dim % (2 * full_width<T>) == 0, [&](auto w) {
      constexpr int W = decltype(w)::value;
      constexpr int N = W == 1 ? most_head_size / 64 : 1;
      const int lanes = lanes_for(rows.dim / (2 * W));
      const int together = std::min(ceil_div(rows.normed_heads(), unroll), std::max(max_threads / 2 / lanes, 1));
      const int threads = ceil_div(together * lanes, 32) * 32;
      const dim3 blocks(static_cast<unsigned>(shape.tokens()),
                        static_cast<unsigned>(ceil_div(rows.normed_heads(), threads / lanes * unroll)));
      launch(stream, head_norms_kernel<T, TW, W, N>, blocks, threads, 0, data_of<T>(args.qkv), view_of<T, TW>(args.queries),
             view_of<T, TW>(args.keys), rows, angles, lanes, args.eps, args.offset);
    });
  });
  if (args.cos_sin && !rotates_whole)
    rotary(stream, shape, {.qkv = args.qkv, .cos_sin = *args.cos_sin, .documents = args.documents});
}

}  // namespace pipetrain::cuda
