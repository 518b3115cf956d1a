// Weight gradients of grouped products by the warp group products of Hopper GPUs: operands of 16 bits, sums in fp32.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/arguments/experts.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"

namespace pipetrain::cuda {

// True if the function below computes these gradients on this GPU: matrices whose rows are whole 16-byte vectors.
bool takes_hopper_grouped(const GroupedWeightGradArgs& args, const HopperGpu& gpu);

// tickets [grouped_tickets]: as in ops/cuda/hopper/grouped_products.hpp.
void hopper_grouped_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args, const HopperGpu& gpu, int* tickets);

}  // namespace pipetrain::cuda
