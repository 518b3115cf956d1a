// How cuBLASLt reads the scales of operands in 8 bits.
#pragma once

#include <cublasLt.h>

#include "ops/arguments.hpp"

namespace pipetrain::cuda {

// Of the operation's first and second operand, in cuBLASLt's order. Throws Error(unavailable) for tiles and blocks, which it
// has from version 12.9 on.
void set_scale_modes(cublasLtMatmulDesc_t operation, Fp8Scales first, Fp8Scales second, int device);

}  // namespace pipetrain::cuda
