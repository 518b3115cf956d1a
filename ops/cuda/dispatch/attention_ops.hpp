// Runs attention on a GPU by the kernel that attention_choice.hpp chooses for each call.
#pragma once

#include <cstddef>

#include "ops/cuda/attention/attention_cudnn.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/cuda/ops_stream.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// Has the operations of Ops with the same names. Enqueues on `ops`, which must outlive it. Not thread-safe.
class AttentionOps {
 public:
  // deterministic: cuDNN's backward adds in a fixed order; all other kernels always do.
  AttentionOps(OpsStream& ops, const HopperGpu& gpu, bool deterministic);

  void attention(const SegmentShape& shape, const AttentionArgs& args);
  void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args);
  void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args);
  void cached_latent_attention(const SegmentShape& shape, const CachedLatentAttentionArgs& args);
  void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args);

 private:
  void run(const SegmentShape& shape, const AttentionArgs& args);
  // Returns true if the kernel has rotated the gradients back.
  bool run(const SegmentShape& shape, const AttentionBackwardArgs& args);
  void run_window_and_sinks(const SegmentShape& shape, const AttentionBackwardArgs& args);
  // Do the same with all heads filled up to `size` columns.
  void run_padded(std::int64_t size, const SegmentShape& shape, const AttentionArgs& args);
  void run_padded(std::int64_t size, const SegmentShape& shape, const AttentionBackwardArgs& args);

  OpsStream& ops_;
  OpsStream padded_;  // has the matrices of filled heads
  HopperGpu gpu_;
  CudnnAttention cudnn_;
};

}  // namespace pipetrain::cuda
