// Descriptions of matrices in global memory, for copies of boxes of 64 columns (bulk_copy.cuh).
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace pipetrain::cuda::hopper {

struct RowMajor {
  void* data;               // at a multiple of 16 bytes
  std::int64_t cols, rows;  // cols a multiple of 8
};

// Elements have 16 bits; boxes have 64 columns, in shared memory with a swizzle of 128 bytes. Throws
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

}  // namespace pipetrain::cuda::hopper
