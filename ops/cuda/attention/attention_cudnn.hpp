// Causal attention in bf16 and f16 through cuDNN's graph API. Plans are built once for each shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "ops/arguments/all.hpp"

namespace pipetrain::cuda {

// Not thread-safe. Every call may throw Error(unavailable) if cuDNN does not support the shape.
class CudnnAttention {
 public:
  // Returns at least this many bytes of device memory, valid for one call.
  using Scratch = std::function<void*(std::size_t bytes)>;

  // deterministic: the backward adds in a fixed order, which is slower and needs more scratch.
  CudnnAttention(int device, bool deterministic);
  ~CudnnAttention();

  // The queries must attend to all keys, or the last query must have the last key's position. No documents, no dropout.
  void forward(cudaStream_t stream, const SegmentShape& shape, const AttentionArgs& args, const Scratch& scratch);
  // Computes the gradients of whole sequences; dq and dkv are outputs with the strides of q and kv. Does not rotate.
  void backward(cudaStream_t stream, const SegmentShape& shape, const AttentionBackwardArgs& args, const Scratch& scratch);

 private:
  struct State;  // keeps cuDNN's large headers out of every other file
  std::unique_ptr<State> state_;
};

}  // namespace pipetrain::cuda
