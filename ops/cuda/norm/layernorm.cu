#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm/norm.cuh"

namespace pipetrain::cuda {

void layer_norm(cudaStream_t stream, const LayerNormArgs& args) { norm_forward<true>(stream, "layer_norm", args); }

}  // namespace pipetrain::cuda
