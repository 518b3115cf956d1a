#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.hpp"
#include "model/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// One block a token. A thread turns W pairs (i, i + D/2) of a head at once; blockDim is a multiple of the threads a head takes,
// so that a thread meets the same angles in every head.
template <class T, int W>
__global__ void rotary_kernel(T* __restrict__ qkv, const float* __restrict__ cos_sin, int sequence, int heads, int half,
                              std::int64_t row_stride, float direction) {
  const int chunks = half / W;
  const int chunk = threadIdx.x % chunks;
  const std::int64_t token = blockIdx.x;
  const float* angles = cos_sin + (token % sequence) * 2 * half;
  T* row = qkv + token * row_stride;
  const auto cosines = load<W>(angles, chunk);
  const auto sines = load<W>(angles + half, chunk);
  for (int item = threadIdx.x; item < heads * chunks; item += blockDim.x) {
    T* head = row + static_cast<std::int64_t>(item / chunks) * 2 * half;
    const auto first = load<W>(head, chunk);
    const auto second = load<W>(head + half, chunk);
    float out_first[W], out_second[W];
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float sine = sines[i] * direction;
      out_first[i] = first[i] * cosines[i] - second[i] * sine;
      out_second[i] = second[i] * cosines[i] + first[i] * sine;
    }
    store(head, chunk, out_first);
    store(head + half, chunk, out_second);
  }
}

}  // namespace

void rotary(cudaStream_t stream, const AttentionShape& shape, const Tensor& qkv, const Tensor& cos_sin, bool inverse) {
  if (shape.tokens() == 0) return;
  const int half = static_cast<int>(shape.head_dim / 2);
  const int heads = static_cast<int>(shape.heads + shape.kv_heads);
  with_type(qkv.dtype, "rotary", [&](auto t) {
    using T = typename decltype(t)::type;
    with_width<T>(half % full_width<T> == 0 && aligned16(qkv.data), [&](auto w) {
      constexpr int W = decltype(w)::value;
      const int chunks = half / W;
      const int rounds = ceil_div(heads * chunks, 256);
      const int threads = ceil_div(ceil_div(heads, rounds) * chunks, chunks) * chunks;
      rotary_kernel<T, W><<<static_cast<unsigned>(shape.tokens()), threads, 0, stream>>>(
          data_of<T>(qkv), data_of<float>(cos_sin), static_cast<int>(shape.sequence), heads, half, shape.packed_cols(),
          inverse ? -1.0F : 1.0F);
    });
  });
}

}  // namespace pipetrain::cuda
