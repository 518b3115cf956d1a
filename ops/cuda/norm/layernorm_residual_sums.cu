// LayerNorm's backward that sums the residual's columns too, apart from layernorm_backward.cu because each takes long to
// compile.
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm/norm_backward.cuh"

namespace pipetrain::cuda {

void layer_norm_backward_with_sums(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch) {
  norm_backward<true, true>(stream, "layer_norm_backward", args, multiprocessors, scratch);
}

}  // namespace pipetrain::cuda
