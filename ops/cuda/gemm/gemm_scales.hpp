// Tells cuBLASLt how to read the scales of 8-bit operands.
#pragma once

#include <cublasLt.h>

#include "ops/fp8_matrix.hpp"

namespace pipetrain::cuda {

// Sets the modes for the first and second operand, in cuBLASLt's order. Throws Error(unavailable) for tiles and
// blocks if cuBLASLt is older than 12.9.
void set_scale_modes(cublasLtMatmulDesc_t operation, Fp8Scales first, Fp8Scales second, int device);

}  // namespace pipetrain::cuda
