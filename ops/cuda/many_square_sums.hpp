// Sums the squares of many tensors in few launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "ops/arguments/arenas.hpp"

namespace pipetrain::cuda {

constexpr std::size_t most_square_sums = 128;  // tensors in one call

std::size_t square_sum_each_scratch(std::span<const SquareSumArgs> sums);  // bytes
// `sums` must have at most most_square_sums elements. scratch: square_sum_each_scratch() bytes.
void square_sum_each(cudaStream_t stream, std::span<const SquareSumArgs> sums, void* scratch);

}  // namespace pipetrain::cuda
