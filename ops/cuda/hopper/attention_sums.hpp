// What attention's backward on Hopper GPUs adds up before and after its products.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/cuda/hopper/attention_hopper.hpp"

namespace pipetrain::cuda::hopper {

struct BackwardView;

// Zeroes view.query_sums; writes view.statistics and view.largest.
template <class Tile>
void begin_sums(cudaStream_t stream, const BackwardView& view, const AttentionBackwardArgs& args);

// Rounds view.query_sums to view.dq or adds them to it, and puts the sums of view.key_sums, where there are parts, where dK and
// dV go; dQ and dK are turned back where view has angles.
template <class Tile>
void end_sums(cudaStream_t stream, const BackwardView& view);

}  // namespace pipetrain::cuda::hopper
