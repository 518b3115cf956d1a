// Cross-entropy of rows of 16-bit logits on Hopper GPUs: sums alone, by streaming rows through a block
// (cross_entropy_sums.cu), or sums and gradient from one read of a row, which the shared memory of a cluster of
// blocks holds (cross_entropy_rows.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {

// Returns true for bf16 and f16 with at most 262,144 columns, if each row is a multiple of 16 bytes.
bool takes_cross_entropy_rows(const Tensor& logits, const HopperGpu& gpu);
// Writes `found`. With scale the whole vocabulary must be on this rank, and the logits become their gradient
// with the bits of cross_entropy_backward(); the sums' bits do not depend on it. Does not write log_sum_exp and
// the loss: see cross_entropy_loss().
void cross_entropy_rows(cudaStream_t stream, const CrossEntropyArgs& args, const LossSums& found, std::optional<float> scale);

}  // namespace pipetrain::cuda
