// One matrix product on the calling thread.
#pragma once

#include <cstdint>

namespace pipetrain::cpu {

// A row-major matrix inside a larger one, or the transpose of one.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;  // between stored rows
  bool transposed = false;

  // Where the element of the matrix, after transposing, is.
  const float* at(std::int64_t row, std::int64_t col) const {
    return transposed ? data + col * stride + row : data + row * stride + col;
  }
};

// c [m, n] = alpha a [m, k] b [k, n] + beta c, in fp32; what c holds does not matter when beta is 0. Thread-safe; the same
// shapes and strides give the same bits on any thread.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Matrix& a, const Matrix& b, float beta, float* c,
           std::int64_t c_stride);

// The same, summed in fp64, at a quarter of the speed.
void precise_gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Matrix& a, const Matrix& b, float beta,
                  float* c, std::int64_t c_stride);

// An operation with no more multiplications than this sums in fp64: that costs little, and in small models Adam's first steps,
// which divide a gradient by its own size, turn the rounding of a few elements into changes of the loss that can be seen.
constexpr std::int64_t small_products = 1 << 22;

}  // namespace pipetrain::cpu
