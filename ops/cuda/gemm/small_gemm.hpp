// Small fp32 products, summed in fp64: they cost little, and a small model's first steps of Adam magnify rounding.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/cuda/gemm/gemm.hpp"

namespace pipetrain::cuda {

// Multiplies like Gemm::run, but only in f32, and in any sizes above zero.
void small_gemm(cudaStream_t stream, const GemmOperands& operands);

constexpr std::int64_t small_product = 1 << 22;  // multiplications; the CPU has the same limit

}  // namespace pipetrain::cuda
