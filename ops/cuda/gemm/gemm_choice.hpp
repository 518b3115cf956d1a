// Which of cuBLASLt's algorithms is the fastest for a shape, where measuring it found another than its list's first.
#pragma once

#include <optional>

#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {

struct GemmChoice {
  int rank = 0;                 // in the list of gemm_algorithms
  std::optional<GemmShape> of;  // whose list it is, of the same Product and types; else the shape's own
};

// The list's first for shapes, chips and library versions that were not measured.
GemmChoice gemm_choice(const GemmShape& shape, int device);

}  // namespace pipetrain::cuda
