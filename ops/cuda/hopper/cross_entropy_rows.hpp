// Cross-entropy of rows of 16-bit logits on Hopper GPUs: sums by streaming rows through a block (cross_entropy_sums.cu), or
// sums and gradient from one read of a row that the shared memory of a cluster of blocks holds (cross_entropy_rows.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {

// bf16 and f16, at most 262,144 columns, each row a multiple of 16 bytes.
bool takes_cross_entropy_rows(const Tensor& logits, const HopperGpu& gpu);
// Writes `found`. With scale the whole vocabulary must be here: then also does cross_entropy_backward(), to the bit; the sums'
// bits do not depend on it. Does not write log_sum_exp and the loss: see cross_entropy_loss().
void cross_entropy_rows(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found, std::optional<float> scale);

}  // namespace pipetrain::cuda
