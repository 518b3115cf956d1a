// LayerNorm's backward with the residual's column sums. It is in a file of its own because it and
// layernorm_backward.cu each take long to compile.
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm/norm_backward.cuh"

namespace pipetrain::cuda {

void layer_norm_backward_with_sums(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch) {
  norm_backward<true, true>(stream, "layer_norm_backward", args, multiprocessors, scratch);
}

}  // namespace pipetrain::cuda
