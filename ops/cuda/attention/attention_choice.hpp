// Chooses the kernel that computes an attention on a GPU. This is host code without CUDA, so that every build
// contains and tests it.
#pragma once

#include <cstdint>

#include "ops/arguments/attention.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/segment_shape.hpp"

namespace pipetrain::cuda {

enum class AttentionKernel : std::uint8_t {
  exact,   // attention.cu, attention_gradients.cu: heads of up to 256, all types, no tensor cores; fp32 sums in fp64
  mma,     // attention_mma.cu, attention_mma_backward.cu: bf16 on tensor cores, heads of up to 256, with documents and dropout
  cudnn,   // attention_cudnn.cpp: 16 bits, without documents and dropout; its backward takes whole sequences only
  hopper,  // hopper/attention_hopper.cu: the backward alone, 16 bits, without dropout
  window_and_sinks,  // cudnn or hopper within the window, to which attention_mma.cu adds the sinks before it
};

// Returns the shape without what shows none of the segment's keys: sinks and stripes where the window hides no key, and sinks
// that are keys of other segments.
SegmentShape needed_pattern(const SegmentShape& shape, bool has_documents);
// The segments of a shape with a window and sinks, for window_and_sinks: the window alone, and the sinks before it as keys that
// queries see from so many positions later on.
SegmentShape window_part(const SegmentShape& shape);
SegmentShape sinks_part(const SegmentShape& shape);

// The choice depends on shapes, types, strides and on whether there are documents and dropout, never on values,
// so that equal calls run equal kernels in every run. For cuDNN the caller chooses the deterministic algorithm or the default
// one.
AttentionKernel attention_kernel(const SegmentShape& shape, const AttentionArgs& args);
AttentionKernel attention_backward_kernel(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu);

// Returns the head size to which queries, keys and values of different sizes are filled up with zeros, so that a kernel with
// tensor cores takes them; 0 where they are not.
std::int64_t padded_head_size(const SegmentShape& shape, const AttentionArgs& args);
std::int64_t padded_head_size(const SegmentShape& shape, const AttentionBackwardArgs& args, const HopperGpu& gpu);
// Returns the shape with heads of this size. Scores keep their scale.
SegmentShape with_padded_heads(const SegmentShape& shape, std::int64_t size);

}  // namespace pipetrain::cuda
