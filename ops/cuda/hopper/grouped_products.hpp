// Grouped products by the warp group products of Hopper GPUs: operands of 16 bits, sums in fp32.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/arguments/experts.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"

namespace pipetrain::cuda {
namespace hopper {

// True if the kernels of grouped products can read operands a and b of 16 bits, and write out.
bool takes_operands(const Tensor& a, const Tensor& b, const Tensor& out, const Tensor& offsets);

}  // namespace hopper

// True if the function below computes this product on this GPU: matrices whose rows are whole 16-byte vectors, and for input
// gradients an expert's rows in multiples of 64.
bool takes_hopper_grouped(const GroupedMatmulArgs& args, const HopperGpu& gpu);
// True if hopper_grouped_matmul() adds the bias before it rounds: one of the rows' type for each of their columns.
bool adds_bias_in_hopper(const GroupedMatmulArgs& args);

// tickets [grouped_tickets]: device memory that holds zeros, and holds zeros again afterwards.
constexpr int grouped_tickets = 2;
void hopper_grouped_matmul(cudaStream_t stream, const GroupedMatmulArgs& args, const HopperGpu& gpu, int* tickets);

}  // namespace pipetrain::cuda
