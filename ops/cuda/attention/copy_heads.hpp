// Copies heads between matrices in which a head has different numbers of columns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/accumulate.hpp"

namespace pipetrain::cuda {

// Some heads of a matrix: its columns [first_column, first_column + heads dim).
struct HeadColumns {
  Tensor matrix;
  std::int64_t first_column, heads, dim;
};

// Copies, or with `accumulate` adds, the columns that the heads of both have. Columns that only those of `to` have become zero.
// Both have as many heads and rows, and one type, which is f32 where it adds.
void copy_heads(cudaStream_t stream, const HeadColumns& from, const HeadColumns& to, Accumulate accumulate = Accumulate::no);

}  // namespace pipetrain::cuda
