// What attention's backward on Hopper GPUs adds up before and after its products.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/arguments.hpp"

namespace pipetrain::cuda::hopper {

struct BackwardView;

// Zeroes view.query_sums; writes view.statistics and view.largest.
template <class Tile>
void begin_sums(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args);

// Rounds view.query_sums, and the sums of view.key_sums where there are parts, to view.dqkv.
template <class Tile>
void end_sums(cudaStream_t stream, const BackwardView& view);

}  // namespace pipetrain::cuda::hopper
