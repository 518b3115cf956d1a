#include "ops/cuda/gemm/gemm_scales.hpp"

#include <string>

#include "core/error.hpp"

namespace pipetrain::cuda {
namespace {

[[noreturn]] void refuse(int device, const std::string& why) {
  throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device) + ": cuBLASLt: " + why);
}

}  // namespace

#if CUBLAS_VERSION >= 120900

void set_scale_modes(cublasLtMatmulDesc_t operation, Fp8Scales first, Fp8Scales second, int device) {
  if (first == Fp8Scales::tensor && second == Fp8Scales::tensor) return;
  if (cublasLtGetVersion() < 120900)
    refuse(device, "scales of tiles and blocks need its version 12.9; use fp8-recipe tensorwise");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, Fp8Scales scales) {
    const cublasLtMatmulMatrixScale_t mode = scales == Fp8Scales::tiles    ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                             : scales == Fp8Scales::blocks ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                                                           : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    if (cublasLtMatmulDescSetAttribute(operation, attribute, &mode, sizeof mode) != CUBLAS_STATUS_SUCCESS)
      refuse(device, "choosing how operands are scaled failed");
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, first);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, second);
}

#else

void set_scale_modes(cublasLtMatmulDesc_t, Fp8Scales first, Fp8Scales second, int device) {
  if (first == Fp8Scales::tensor && second == Fp8Scales::tensor) return;
  refuse(device, "this build's is older than 12.9, which scales of tiles and blocks need; use fp8-recipe tensorwise");
}

#endif

}  // namespace pipetrain::cuda
