#include <algorithm>

#include "ops/cuda/block_order.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/rotate.cuh"
#include "ops/cuda/vector.cuh"
#include "ops/document_positions.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int unroll = 4;  // heads of a thread, whose loads are in flight together
constexpr int max_threads = 512;

// One column of blocks handles a token. A thread rotates the same W pairs (i, i + half) of several heads of `head_dim` columns,
// so that it needs one set of angles: blockDim is a multiple of the threads for a head.
template <class T, int W>
__global__ void __launch_bounds__(max_threads, 2)
    rotary_kernel(T* qkv, const float* cos_sin, const int* documents, int sequence, int heads, int head_dim, int half,
                  std::int64_t row_stride, float direction) {
  wait_for_previous();
  const int chunks = half / W, chunk = threadIdx.x % chunks, step = blockDim.x / chunks;
  const int first_head = blockIdx.y * step * unroll + threadIdx.x / chunks;
  const std::int64_t token = block_from_end();
  const float* angles = cos_sin + position_of(token, sequence, documents) * 2 * half;
  T* row = qkv + token * row_stride;
  Pack<T, W> first[unroll], second[unroll];
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const int head = first_head + n * step;
    if (head >= heads) continue;
    first[n] = load<W>(row + head * head_dim, chunk);
    second[n] = load<W>(row + head * head_dim + half, chunk);
  }
  const auto cosines = load<W>(angles, chunk), sines = load<W>(angles + half, chunk);
#pragma unroll
  for (int n = 0; n < unroll; ++n) {
    const int head = first_head + n * step;
    if (head >= heads) break;
    Real<T> out_first[W], out_second[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const Real<T> cosine = cosines[i], sine = sines[i] * direction;
      const auto both = rotated(static_cast<Real<T>>(first[n][i]), static_cast<Real<T>>(second[n][i]), cosine, sine);
      out_first[i] = both.x, out_second[i] = both.y;
    }
    store(row + head * head_dim, chunk, out_first);
    store(row + head * head_dim + half, chunk, out_second);
  }
}

}  // namespace

void rotary(cudaStream_t stream, const SegmentShape& shape, const RotaryArgs& args) {
  if (shape.tokens() == 0) return;
  const int head_dim = static_cast<int>(shape.head_dim), half = static_cast<int>(args.cos_sin.shape[2]);
  const int heads = static_cast<int>(shape.heads + shape.kv_heads);
  with_type(args.qkv.dtype, "rotary", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(half % full_width<T> == 0 && head_dim % full_width<T> == 0 && aligned16(args.qkv.data), [&](auto w) {
      constexpr int W = decltype(w)::value;
      const int chunks = half / W;
      const int together =
          std::min(ceil_div(heads, unroll), std::max(max_threads / 2 / chunks, 1));  // heads that a block handles at once
      const dim3 blocks(static_cast<unsigned>(shape.tokens()), static_cast<unsigned>(ceil_div(heads, together * unroll)));
      launch(stream, rotary_kernel<T, W>, blocks, together * chunks, 0, data_of<T>(args.qkv), data_of<float>(args.cos_sin),
             data_or_null<int>(args.documents), static_cast<int>(shape.queries), heads, head_dim, half, shape.packed_cols(),
             args.inverse ? -1.0F : 1.0F);
    });
  });
}

}  // namespace pipetrain::cuda
