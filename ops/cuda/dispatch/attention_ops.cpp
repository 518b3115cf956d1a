#include "ops/cuda/dispatch/attention_ops.hpp"

#include "ops/cuda/attention/attention_choice.hpp"
#include "ops/cuda/hopper/attention_hopper.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {

AttentionOps::AttentionOps(OpsStream& ops, const HopperGpu& gpu, bool deterministic)
    : ops_(ops), gpu_(gpu), cudnn_(ops.stream().device_index(), deterministic) {}

void AttentionOps::attention(const SegmentShape& shape, const AttentionArgs& args) {
  const AttentionKernel kernel = attention_kernel(shape, args);
  ops_.enqueue("attention", [&](cudaStream_t stream) {
    if (kernel == AttentionKernel::cudnn)
      return cudnn_.forward(stream, shape, args, [&](std::size_t bytes) { return ops_.scratch(bytes); });
    if (kernel == AttentionKernel::mma) return cuda::attention_mma(stream, shape, args);
    cuda::attention(stream, shape, args);
  });
}

void AttentionOps::attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) {
  const AttentionKernel kernel = attention_backward_kernel(shape, args, gpu_);
  ops_.enqueue("attention_backward", [&](cudaStream_t stream) {
    switch (kernel) {
      case AttentionKernel::exact:
        return cuda::attention_backward(stream, shape, args, ops_.scratch(cuda::attention_backward_scratch(shape)));
      case AttentionKernel::mma:
        return cuda::attention_mma_backward(stream, shape, args, ops_.scratch(cuda::attention_mma_backward_scratch(shape)));
      case AttentionKernel::cudnn:
        return cudnn_.backward(stream, shape, args, [&](std::size_t bytes) { return ops_.scratch(bytes); });
      case AttentionKernel::hopper:
        return hopper_attention_backward(stream, shape, args, gpu_,
                                         ops_.scratch(hopper_attention_backward_scratch(shape, args, gpu_)));
    }
  });
  if (!args.cos_sin || (kernel == AttentionKernel::hopper && rotates_in_hopper(shape, args))) return;
  ops_.enqueue("rotary", [&](cudaStream_t stream) {
    cuda::rotary(stream, shape, {.qkv = args.dq, .cos_sin = *args.cos_sin, .documents = args.documents, .inverse = true});
  });
}

void AttentionOps::cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) {
  refuse_sparse(shape);
  ops_.enqueue("cached_attention", [&](cudaStream_t stream) { cuda::cached_attention(stream, shape, args); });
}

void AttentionOps::merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) {
  ops_.enqueue("merge_attention", [&](cudaStream_t stream) { cuda::merge_attention(stream, shape, args); });
}

}  // namespace pipetrain::cuda
