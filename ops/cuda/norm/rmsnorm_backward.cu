#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm/norm_backward.cuh"

namespace pipetrain::cuda {

std::size_t rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return norm_backward_scratch(rows, cols, multiprocessors, 1);
}

void rms_norm_backward(cudaStream_t stream, const RmsNormBackwardArgs& args, int multiprocessors, void* scratch) {
  const LayerNormBackwardArgs centered{.dy = args.dy,
                                       .x = args.x,
                                       .weight = args.weight,
                                       .mean = {},
                                       .inv_std = args.inv_rms,
                                       .residual = args.residual,
                                       .dx = args.dx,
                                       .dweight = args.dweight,
                                       .dbias = {}};
  norm_backward<false>(stream, "rms_norm_backward", centered, multiprocessors, scratch, args.offset);
}

}  // namespace pipetrain::cuda
