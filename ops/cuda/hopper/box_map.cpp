#include "ops/cuda/hopper/box_map.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"

namespace pipetrain::cuda::hopper {
namespace {

// The driver's function by way of the runtime, so that no program links the driver, which machines without GPUs lack.
decltype(&cuTensorMapEncodeTiled) encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
    throw Error(ErrorKind::unavailable, "the CUDA driver has no cuTensorMapEncodeTiled: use a driver of CUDA 12 or later");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

}  // namespace

CUtensorMap make_box_map(CUtensorMapDataType type, const RowMajor& matrix, int box_rows) {
  static const auto encode = encode_function();
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(matrix.cols) * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)}, every[2] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 2, matrix.data, sizes, row_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error(ErrorKind::unavailable, "the CUDA driver describes no matrix of " + std::to_string(matrix.rows) + " x " +
                                            std::to_string(matrix.cols) + " (error " + std::to_string(result) + ")");
  return map;
}

}  // namespace pipetrain::cuda::hopper
