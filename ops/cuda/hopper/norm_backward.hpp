// LayerNorm's backward in bf16 and f16 on Hopper GPUs, with the bits of norm_backward.cuh: rows come two ahead.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/hopper/attention_hopper.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// Rows of a multiple of 16 bytes, of which a block's fit into shared memory twice.
bool takes_hopper_norm_backward(const LayerNormBackwardArgs& args, const HopperGpu& gpu);
// scratch: as layer_norm_backward_scratch() of kernels.hpp says.
void hopper_layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
