#include "ops/cuda/device_math.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = static_cast<int>(eight_bit_block);

struct Maps {
  EightBitMap of[2] = {eight_bit_map(true), eight_bit_map(false)};
};
__constant__ constexpr Maps maps{};

struct Moments {
  EightBitState state[2];
};

// Returns the smallest and the largest value among the threads of the block.
__device__ float2 extremes(float value, bool counts, float2* of_warps) {
  float least = counts ? value : INFINITY, most = counts ? value : -INFINITY;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    least = fminf(least, __shfl_xor_sync(0xffffffffU, least, distance));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffU, most, distance));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = {least, most};
  __syncthreads();
  for (int warp = 0; warp < threads / 32; ++warp) {
    least = fminf(least, of_warps[warp].x);
    most = fmaxf(most, of_warps[warp].y);
  }
  return {least, most};
}

// A block of threads has a block of elements. The maps are searched in shared memory, because threads read different values.
template <class T>
__global__ void eight_bit_kernel(float* weight, const float* grad, Moments moments, T* rounded, bool is_preview,
                                 std::int64_t count, AdamWRule<DeviceMath> rule) {
  __shared__ float map[2][eight_bit_codes];
  __shared__ float2 of_warps[threads / 32];
  for (int i = 0; i < 2; ++i) map[i][threadIdx.x] = maps.of[i][threadIdx.x];
  cudaTriggerProgrammaticLaunchCompletion();
  wait_for_previous();
  __syncthreads();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const bool has = at < count;
  float values[2] = {0, 0};
  for (int i = 0; has && i < 2; ++i)
    values[i] = __fmul_rn(map[i][moments.state[i].codes[at]], moments.state[i].magnitudes[blockIdx.x]);
  if (has) {
    const float next = rule(weight[at], grad[at], values[0], values[1]);
    if (!is_preview) weight[at] = next;
    if (rounded != nullptr) {
      const float one[1] = {next};
      store(rounded, at, one);
    }
  }
  if (is_preview) return;
  for (int i = 0; i < 2; ++i) {
    const float2 ends = extremes(values[i], has, of_warps);
    const float magnitude = block_magnitude(map[i], ends.x, ends.y);
    if (threadIdx.x == 0) moments.state[i].magnitudes[blockIdx.x] = magnitude;
    if (has) moments.state[i].codes[at] = nearest_code(map[i], magnitude > 0 ? __fdiv_rn(values[i], magnitude) : 0.0F);
  }
}

}  // namespace

void eight_bit_update(cudaStream_t stream, const EightBitUpdateArgs& args) {
  const std::int64_t count = args.weight.elements();
  if (count == 0) return;
  with_type(args.rounded ? args.rounded->dtype : DType::f32, "rounded weights", [&](auto t) {
    using T = typename decltype(t)::type;
    T* copy = args.rounded ? data_of<T>(*args.rounded) : nullptr;
    launch(stream, eight_bit_kernel<T>, blocks_for(count, threads), threads, 0, data_of<float>(args.weight),
           data_of<float>(args.grad), Moments{{args.states[0], args.states[1]}}, copy, args.preview, count,
           AdamWRule<DeviceMath>(args.rule));
  });
}

}  // namespace pipetrain::cuda
