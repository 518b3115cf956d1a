#include "model/cuda/kernels.hpp"
#include "model/cuda/launch.hpp"

namespace pipetrain::cuda {
namespace {

// 32 columns a block; blockIdx.y chooses the sum. The order depends on the number of shares only.
__global__ void add_partials_kernel(const float* __restrict__ partial, int shares, int cols, float* __restrict__ first,
                                    float* __restrict__ second) {
  __shared__ double shared[32][33];
  const int col = blockIdx.x * 32 + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * cols;
  partial += static_cast<std::int64_t>(blockIdx.y) * cols;
  float* const total = blockIdx.y == 0 ? first : second;
  double sum = 0;
  if (col < cols) {
    for (int share = threadIdx.y; share < shares; share += 32) sum += partial[share * stride + col];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = shared[threadIdx.x][threadIdx.y];  // one of the 32 sums of column threadIdx.y
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const int own = blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x == 0 && own < cols) total[own] = static_cast<float>(total[own] + sum);
}

}  // namespace

void add_partials(cudaStream_t stream, const float* partial, int shares, std::int64_t cols, float* first, float* second) {
  add_partials_kernel<<<dim3(blocks_for(cols, 32), second == nullptr ? 1 : 2), dim3(32, 32), 0, stream>>>(
      partial, shares, static_cast<int>(cols), first, second);
}

}  // namespace pipetrain::cuda
