#include "ops/cuda/hopper/hopper_gpu.hpp"

#include <cuda_runtime_api.h>

namespace pipetrain::cuda {

HopperGpu hopper_gpu(int device) {
  int major = 0, minor = 0, multiprocessors = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  return {major == 9 && minor == 0, multiprocessors};
}

}  // namespace pipetrain::cuda
