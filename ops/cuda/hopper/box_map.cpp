#include "ops/cuda/hopper/box_map.hpp"

#include <string>

#include "core/cuda/cuda_driver.hpp"
#include "core/error.hpp"

namespace pipetrain::cuda::hopper {
CUtensorMap make_box_map(CUtensorMapDataType type, const RowMajor& matrix, int box_rows) {
  static const auto encode =
      reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled", 12000));
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint32_t element_bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(matrix.cols) * element_bytes};
  const cuuint32_t box[2] = {128 / element_bytes, static_cast<cuuint32_t>(box_rows)}, every[2] = {1, 1};
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
