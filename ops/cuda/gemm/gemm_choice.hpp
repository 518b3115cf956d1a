// Names the fastest of cuBLASLt's algorithms for shapes in which measuring found another than the first of its list.
#pragma once

#include <optional>

#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {

struct GemmChoice {
  int rank = 0;                 // index in the list of gemm_algorithms
  std::optional<GemmShape> of;  // the shape whose list it is, of the same Product and types; empty: the shape itself
};

// Returns the first of the list for shapes, chips and library versions that were not measured.
GemmChoice gemm_choice(const GemmShape& shape, int device);

}  // namespace pipetrain::cuda
