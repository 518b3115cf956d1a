// LayerNorm's backward in bf16 and f16 on Hopper GPUs, with the bits of norm_backward.cuh; it loads rows two ahead.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/arguments/all.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"

namespace pipetrain::cuda {

// Returns true if this is a Hopper GPU, x has 16 bits and rows of a multiple of 8 and at most 8,192 columns,
// and all tensors begin at multiples of 16 bytes.
bool takes_hopper_norm_backward(const LayerNormBackwardArgs& args, const HopperGpu& gpu);
// scratch: of layer_norm_backward_scratch() bytes (kernels.hpp).
void hopper_layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
