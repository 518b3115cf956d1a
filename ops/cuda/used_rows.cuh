// The number of rows that hold values, where only the device knows it: see ops/arguments/experts.hpp. Only for .cu files.
#pragma once

#include <cuda_runtime.h>

#include "core/tensor.hpp"

namespace pipetrain::cuda {

// Returns null if all rows hold values.
inline const int* used_or_null(const Tensor& used) {
  return used.shape.rank() == 0 ? nullptr : static_cast<const int*>(used.data);
}

// Returns the packs of the rows that hold values. row_packs: of one row.
template <class Count>
__device__ Count used_packs(const int* used, unsigned row_packs, Count packs) {
  return used == nullptr ? packs : static_cast<Count>(*used) * row_packs;
}

}  // namespace pipetrain::cuda
