#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm_backward.cuh"

namespace pipetrain::cuda {

void layer_norm(cudaStream_t stream, const LayerNormArgs& args) { norm_forward<true>(stream, "layer_norm", args); }

std::size_t layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return norm_backward_scratch(rows, cols, multiprocessors, 3);
}

void layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch) {
  constexpr const char* what = "layer_norm_backward";
  if (args.residual_sums) return norm_backward<true, true>(stream, what, args, multiprocessors, scratch);
  norm_backward<true>(stream, what, args, multiprocessors, scratch);
}

}  // namespace pipetrain::cuda
