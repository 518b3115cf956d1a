#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm/norm_backward.cuh"

namespace pipetrain::cuda {

std::size_t layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return norm_backward_scratch(rows, cols, multiprocessors, 3);
}

void layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch) {
  if (args.residual_sums) return layer_norm_backward_with_sums(stream, args, multiprocessors, scratch);
  norm_backward<true>(stream, "layer_norm_backward", args, multiprocessors, scratch);
}

}  // namespace pipetrain::cuda
