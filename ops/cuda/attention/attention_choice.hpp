// Chooses the kernel that computes an attention on a GPU. This is host code without CUDA, so that every build
// contains and tests it.
#pragma once

#include <cstdint>

#include "ops/arguments.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/segment_shape.hpp"

namespace pipetrain::cuda {

enum class AttentionKernel : std::uint8_t {
  exact,   // attention.cu, attention_gradients.cu: heads of up to 256, all types, no tensor cores; fp32 sums in fp64
  mma,     // attention_mma.cu, attention_mma_backward.cu: bf16 on tensor cores, heads of up to 256, with documents and dropout
  cudnn,   // attention_cudnn.cpp: 16 bits, without documents and dropout; its backward takes whole sequences only
  hopper,  // hopper/attention_hopper.cu: the backward alone, 16 bits, without dropout
};

// The choice depends on shapes, types, strides and on whether there are documents and dropout, never on values,
// so that equal calls run equal kernels in every run. Both functions throw Error(unavailable) for a shape that
// no kernel is built for. For cuDNN the caller chooses the deterministic algorithm or the default one.
AttentionKernel attention_kernel(const SegmentShape& shape, const AttentionArgs& args);
AttentionKernel attention_backward_kernel(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu);

}  // namespace pipetrain::cuda
