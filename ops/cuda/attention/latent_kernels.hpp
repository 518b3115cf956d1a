// The kernels of learned logits of heads and of latent attention, as functions that launch them on a CUDA stream. Shapes and
// meaning as in ops/ops.hpp; otherwise as ops/cuda/kernels.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/arguments/all.hpp"

namespace pipetrain::cuda {

// sinks.cu
void add_sinks(cudaStream_t stream, const SinksArgs& args);
void sinks_backward(cudaStream_t stream, const SinksBackwardArgs& args);

// latent_heads.cu
void latent_heads(cudaStream_t stream, const SegmentShape& shape, const LatentHeadsArgs& args);
void latent_heads_backward(cudaStream_t stream, const SegmentShape& shape, const LatentHeadsBackwardArgs& args);

// cached_latent_attention.cu
void cached_latent_attention(cudaStream_t stream, const SegmentShape& shape, const CachedLatentAttentionArgs& args);

}  // namespace pipetrain::cuda
