// One matrix product on the calling thread.
#pragma once

#include <cstdint>

namespace pipetrain::cpu {

// A row-major matrix inside a larger one, or the transpose of one.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;  // between stored rows
  bool transposed = false;

  // Returns the address of an element of the matrix after transposing.
  const float* at(std::int64_t row, std::int64_t col) const {
    return transposed ? data + col * stride + row : data + row * stride + col;
  }
};

// c [m, n] = alpha a [m, k] b [k, n] + beta c; the old c is not read if beta is 0.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b;
  float* c = nullptr;
  std::int64_t c_stride = 0;  // between rows
  float alpha = 1, beta = 0;
};

// Multiplies in fp32. Thread-safe; equal shapes and strides give equal bits on any thread. Throws Error(out_of_memory).
void sgemm(const Product& product);

// Multiplies like sgemm(), but sums in fp64, at a quarter of the speed.
void precise_gemm(const Product& product);

// An operation with no more multiplications than this sums in fp64. That costs little, and in small models Adam's first steps,
// which divide a gradient by its own size, turn the rounding of a few elements into visible changes of the loss.
constexpr std::int64_t small_products = 1 << 22;

}  // namespace pipetrain::cpu
