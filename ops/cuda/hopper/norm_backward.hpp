// LayerNorm's backward in bf16 and f16 on Hopper GPUs, with the bits of norm_backward.cuh: rows come two ahead.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// Whether this is a Hopper GPU and x has 16 bits, rows of a multiple of 8 and at most 8,192 columns, and all tensors begin at
// multiples of 16 bytes.
bool takes_hopper_norm_backward(const LayerNormBackwardArgs& args, const HopperGpu& gpu);
// scratch: as layer_norm_backward_scratch() of kernels.hpp says.
void hopper_layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
