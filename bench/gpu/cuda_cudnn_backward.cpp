#include "bench/gpu/cudnn_backward.hpp"
#include "core/buffer.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/device.hpp"
#include "ops/cuda/attention/attention_cudnn.hpp"

namespace pipetrain::bench {

struct CudnnBackward::State {
  CudaStream& stream;
  cuda::CudnnAttention cudnn;
  Buffer scratch = {};
};

CudnnBackward::CudnnBackward(Stream& stream, bool deterministic)
    : state_(new State{cuda_stream(stream), {cuda_stream(stream).device_index(), deterministic}}) {}

CudnnBackward::~CudnnBackward() = default;

void CudnnBackward::run(const SegmentShape& shape, const AttentionBackwardArgs& args) {
  const auto scratch = [this](std::size_t bytes) {
    if (state_->scratch.bytes() < bytes) state_->scratch = state_->stream.device().allocate(bytes, "cuDNN's attention");
    return state_->scratch.data();
  };
  state_->cudnn.backward(state_->stream.native(), shape, args, scratch);
}

}  // namespace pipetrain::bench
