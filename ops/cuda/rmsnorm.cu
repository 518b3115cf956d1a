#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm_backward.cuh"

namespace pipetrain::cuda {

void rms_norm(cudaStream_t stream, const Tensor& x, const Tensor& weight, float eps, const Tensor& y, const Tensor& inv_rms) {
  norm_forward<false>(stream, "rms_norm", x, weight, nullptr, eps, y, nullptr, inv_rms);
}

std::size_t rms_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return norm_backward_scratch(rows, cols, multiprocessors, 1);
}

void rms_norm_backward(cudaStream_t stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& inv_rms,
                       const Tensor* residual, const Tensor& dx, const Tensor& dweight, int multiprocessors, void* scratch) {
  norm_backward<false>(stream, "rms_norm_backward", dy, x, weight, nullptr, inv_rms, residual, dx, dweight, nullptr,
                       multiprocessors, scratch);
}

}  // namespace pipetrain::cuda
