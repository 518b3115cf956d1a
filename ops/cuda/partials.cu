#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

// A block handles 32 columns; blockIdx.y chooses the sum. The order depends on the number of shares only.
__global__ void add_partials_kernel(const float* partial, int shares, int cols, PartialSums sums) {
  constexpr int unroll = 5;  // loads in flight together: enough for one share a multiprocessor
  wait_for_previous();
  __shared__ double shared[32][33];
  const int col = blockIdx.x * 32 + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * cols;
  partial += static_cast<std::int64_t>(blockIdx.y) * cols;
  float* const total = blockIdx.y == 0 ? sums.first : blockIdx.y == 1 ? sums.second : sums.third;
  const int own = blockIdx.x * 32 + threadIdx.y;  // the column that thread (0, y) writes
  const float old = own < cols ? total[own] : 0.0F;
  double sum = 0;
  for (int first = threadIdx.y; first < shares && col < cols; first += 32 * unroll) {
    float in[unroll];
#pragma unroll
    for (int n = 0; n < unroll; ++n) in[n] = first + 32 * n < shares ? partial[(first + 32 * n) * stride + col] : 0.0F;
#pragma unroll
    for (int n = 0; n < unroll; ++n) sum += in[n];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = shared[threadIdx.x][threadIdx.y];  // one of the 32 sums of column threadIdx.y
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  if (threadIdx.x == 0 && own < cols) total[own] = static_cast<float>(old + sum);
}

}  // namespace

void add_partials(cudaStream_t stream, const float* partial, int shares, std::int64_t cols, const PartialSums& sums) {
  const unsigned count = sums.second == nullptr ? 1 : sums.third == nullptr ? 2 : 3;
  launch(stream, add_partials_kernel, dim3(blocks_for(cols, 32), count), dim3(32, 32), 0, partial, shares,
         static_cast<int>(cols), sums);
}

}  // namespace pipetrain::cuda
