// Replaces the measurements of CUDA libraries in a build without CUDA.
#include "bench/gpu/cudnn_backward.hpp"
#include "core/error.hpp"

namespace pipetrain::bench {

struct CudnnBackward::State {};

CudnnBackward::CudnnBackward(Stream&, bool) {
  throw Error(ErrorKind::unavailable,
              "cuDNN is not measured: this build has no CUDA; use ./dev bench gpu on a machine with nvcc");
}
CudnnBackward::~CudnnBackward() = default;
void CudnnBackward::run(const SegmentShape&, const AttentionBackwardArgs&) {}

}  // namespace pipetrain::bench
