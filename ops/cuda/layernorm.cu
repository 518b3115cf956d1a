#include "ops/cuda/kernels.hpp"
#include "ops/cuda/norm_backward.cuh"

namespace pipetrain::cuda {

void layer_norm(cudaStream_t stream, const Tensor& x, const Tensor& weight, const Tensor& bias, float eps, const Tensor& y,
                const Tensor& mean, const Tensor& inv_std) {
  norm_forward<true>(stream, "layer_norm", x, weight, &bias, eps, y, &mean, inv_std);
}

std::size_t layer_norm_backward_scratch(std::int64_t rows, std::int64_t cols, int multiprocessors) {
  return norm_backward_scratch(rows, cols, multiprocessors, 2);
}

void layer_norm_backward(cudaStream_t stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& inv_std, const Tensor* residual, const Tensor& dx, const Tensor& dweight,
                         const Tensor& dbias, int multiprocessors, void* scratch) {
  norm_backward<true>(stream, "layer_norm_backward", dy, x, weight, &mean, inv_std, residual, dx, dweight, &dbias,
                      multiprocessors, scratch);
}

}  // namespace pipetrain::cuda
