// Grouped products of operands of 8 bits by the warp group products of Hopper GPUs, with sums in fp32.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/arguments/experts.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"

namespace pipetrain::cuda {

// True if the function below computes these products on this GPU: operands with one scale each, whose rows have a multiple of
// fp8_multiple numbers, and a result in bf16.
bool takes_hopper_grouped(const GroupedFp8MatmulArgs& args, const HopperGpu& gpu);
// True if it adds the bias before it rounds: one of the rows' type for each of their columns.
bool adds_bias_in_hopper(const GroupedFp8MatmulArgs& args);

// tickets [grouped_tickets]: as in ops/cuda/hopper/grouped_products.hpp.
void hopper_grouped_fp8_matmul(cudaStream_t stream, const GroupedFp8MatmulArgs& args, const HopperGpu& gpu, int* tickets);

}  // namespace pipetrain::cuda
