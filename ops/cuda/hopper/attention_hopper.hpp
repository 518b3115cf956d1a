// Causal attention's backward in bf16 and f16 on Hopper GPUs, the same to the bit in every run: dK and dV are sums of one block
// of threads each, dQ is added as integers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "ops/arguments.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// The rotary's backward is part of the kernel where positions count from the sequence's first token and whole heads rotate.
inline bool rotates_in_hopper(const SegmentShape& shape, const AttentionBackwardArgs& args) {
  return args.cos_sin && !args.documents && 2 * args.cos_sin->shape[2] == shape.head_dim;
}

// In bytes.
std::size_t hopper_attention_backward_scratch(const SegmentShape& shape, const AttentionBackwardArgs& args,
                                              const HopperGpu& gpu);
// The shape and the arguments are of those that attention_choice.cpp gives to this kernel. Throws Error(unavailable) where the
// driver is too old. Looks at no CUDA error.
void hopper_attention_backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args,
                               const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
