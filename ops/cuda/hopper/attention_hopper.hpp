// Causal attention's backward in bf16 and f16 on Hopper GPUs, with the same bits in every run: each of dK and
// dV is summed by a single block of threads, and dQ is added as integers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "ops/arguments/all.hpp"
#include "ops/arguments/attention.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"

namespace pipetrain::cuda {

// The kernel also runs the rotation's backward if positions count from the sequence's first token and whole heads rotate, whose
// halves are equally many boxes of columns, and whose values are as wide.
inline bool rotates_in_hopper(const SegmentShape& shape, const AttentionBackwardArgs& args) {
  return args.cos_sin && !args.documents && 2 * args.cos_sin->shape[2] == shape.head_dim && shape.head_dim != 96 &&
         shape.value_dim() == shape.head_dim;
}

// Returns the scratch in bytes.
std::size_t hopper_attention_backward_scratch(const SegmentShape& shape, const AttentionBackwardArgs& args,
                                              const HopperGpu& gpu);
// The shape and the arguments must be ones for which attention_choice.cpp chooses this kernel. Throws
// Error(unavailable) if the driver is too old. Does not check CUDA errors.
void hopper_attention_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args,
                               const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
