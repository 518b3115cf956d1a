// Which algorithm of cuBLASLt's list is the fastest for a shape, where measuring it found another than the first.
#pragma once

#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {

// A rank in the list of gemm_algorithms; 0 for shapes, chips and library versions that were not measured.
int gemm_choice(const GemmShape& shape, int device);

}  // namespace pipetrain::cuda
