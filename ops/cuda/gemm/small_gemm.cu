#include "ops/cuda/gemm/small_gemm.hpp"

#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 16;  // rows, columns and depth of a block's tile; one output a thread

// Element (i, j) of an operand is at index i * row + j * col.
struct Operand {
  const float* data;
  std::int64_t row, col;
};

__global__ void small_gemm_kernel(int m, int n, int k, Operand a, Operand b, double product_factor, const float* addend,
                                  double addend_factor, float* out) {
  __shared__ float a_tile[tile][tile + 1], b_tile[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int i = blockIdx.y * tile + y, j = blockIdx.x * tile + x;
  double sum = 0;
  for (int first = 0; first < k; first += tile) {
    a_tile[y][x] = i < m && first + x < k ? a.data[i * a.row + (first + x) * a.col] : 0.0F;
    b_tile[y][x] = first + y < k && j < n ? b.data[(first + y) * b.row + j * b.col] : 0.0F;
    __syncthreads();
#pragma unroll
    for (int l = 0; l < tile; ++l) sum += static_cast<double>(a_tile[y][l]) * static_cast<double>(b_tile[l][x]);
    __syncthreads();
  }
  if (i >= m || j >= n) return;
  const std::int64_t at = static_cast<std::int64_t>(i) * n + j;
  sum *= product_factor;
  out[at] = static_cast<float>(addend == nullptr ? sum : sum + addend_factor * static_cast<double>(addend[at]));
}

}  // namespace

void small_gemm(cudaStream_t stream, const GemmOperands& operands) {
  const Product product = operands.product;
  const Tensor &a = operands.a, &b = operands.b, &out = operands.out;
  const std::int64_t m = out.rows(), n = out.cols(), k = product == Product::dw ? a.rows() : a.cols();
  const Operand left = product == Product::dw ? Operand{data_of<float>(a), 1, m} : Operand{data_of<float>(a), k, 1};
  const Operand right = product == Product::y ? Operand{data_of<float>(b), 1, k} : Operand{data_of<float>(b), n, 1};
  const dim3 grid(blocks_for(n, tile), blocks_for(m, tile));
  small_gemm_kernel<<<grid, dim3(tile, tile), 0, stream>>>(
      static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), left, right, static_cast<double>(operands.product_factor),
      static_cast<const float*>(operands.addend), static_cast<double>(operands.addend_factor), data_of<float>(out));
}

}  // namespace pipetrain::cuda
