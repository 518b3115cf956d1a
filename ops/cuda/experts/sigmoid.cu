#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

__global__ void sigmoid_kernel(const float* x, float* y, std::int64_t count) {
  wait_for_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 1.0F / (1.0F + expf(-x[i]));
}

__global__ void sigmoid_backward_kernel(const float* dy, const float* y, float* dx, std::int64_t count) {
  wait_for_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) dx[i] = dy[i] * y[i] * (1.0F - y[i]);
}

}  // namespace

void sigmoid(cudaStream_t stream, const SigmoidArgs& args) {
  if (const std::int64_t count = args.y.elements(); count > 0)
    launch(stream, sigmoid_kernel, blocks_for(count, 256), 256, 0, data_of<float>(args.x), data_of<float>(args.y), count);
}

void sigmoid_backward(cudaStream_t stream, const SigmoidBackwardArgs& args) {
  if (const std::int64_t count = args.dx.elements(); count > 0)
    launch(stream, sigmoid_backward_kernel, blocks_for(count, 256), 256, 0, data_of<float>(args.dy), data_of<float>(args.y),
           data_of<float>(args.dx), count);
}

}  // namespace pipetrain::cuda
