// cuDNN's backward of attention, for comparison with our own.
#pragma once

#include <memory>

#include "core/stream.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {

// Its scratch grows with the largest shape. Not thread-safe.
class CudnnBackward {
 public:
  // The stream belongs to a CUDA device and must outlive this object. Throws Error(unavailable) in a build without CUDA.
  CudnnBackward(Stream& stream, bool deterministic);
  ~CudnnBackward();
  // In 16 bits; without documents and dropout.
  void run(const SegmentShape& shape, const AttentionBackwardArgs& args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipetrain::bench
