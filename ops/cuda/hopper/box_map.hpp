// Descriptions of matrices in global memory, for copies of boxes whose rows have 128 bytes (bulk_copy.cuh).
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace pipetrain::cuda::hopper {

struct RowMajor {
  void* data;               // at a multiple of 16 bytes
  std::int64_t cols, rows;  // a row has a multiple of 16 bytes
};

// Boxes have 64 columns of 16 bits or 128 of 8 bits, in shared memory with a swizzle of 128 bytes. Throws
// Error(unavailable) if the driver refuses.
CUtensorMap make_box_map(CUtensorMapDataType type, const RowMajor& matrix, int box_rows);

template <class Element>
CUtensorMap box_map(const RowMajor& matrix, int box_rows);
template <>
inline CUtensorMap box_map<__nv_bfloat16>(const RowMajor& matrix, int box_rows) {
  return make_box_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, matrix, box_rows);
}
template <>
inline CUtensorMap box_map<__half>(const RowMajor& matrix, int box_rows) {
  return make_box_map(CU_TENSOR_MAP_DATA_TYPE_FLOAT16, matrix, box_rows);
}
template <>
inline CUtensorMap box_map<std::uint8_t>(const RowMajor& matrix, int box_rows) {
  return make_box_map(CU_TENSOR_MAP_DATA_TYPE_UINT8, matrix, box_rows);
}

}  // namespace pipetrain::cuda::hopper
