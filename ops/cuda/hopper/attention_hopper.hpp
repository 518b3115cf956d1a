// Causal attention's backward in bf16 and f16 on Hopper GPUs, the same to the bit in every run: dK and dV are sums of one block
// of threads each, dQ is added as integers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "ops/arguments.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// A GPU and what it computes on. Bits depend on them and the shape alone.
struct HopperGpu {
  bool available;  // compute capability 9.0
  int multiprocessors;
};
HopperGpu hopper_gpu(int device);

// Heads of 64 or 128, sequences of a multiple of 128 tokens.
bool takes_hopper_attention(const AttentionShape& shape, const HopperGpu& gpu);
std::size_t hopper_attention_backward_scratch(const AttentionShape& shape, const HopperGpu& gpu);  // bytes
// args without documents and dropout. Throws Error(unavailable) where the driver is too old. Looks at no CUDA error.
void hopper_attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionBackwardArgs& args,
                               const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
