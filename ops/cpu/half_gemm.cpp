#include "ops/cpu/half_gemm.hpp"

#include <algorithm>

#include "ops/cpu/rows.hpp"
#include "ops/cpu/sgemm.hpp"
#include "ops/half_products.hpp"

namespace pipetrain::cpu {
namespace {

// The most rows or columns of a widened piece, besides the summed dimension: few enough that a cache holds some
// pieces, and enough that widening costs little next to multiplying.
constexpr std::int64_t piece = 256;

std::size_t bytes_from(const HalfProduct& of, std::int64_t row, std::int64_t col) {
  return static_cast<std::size_t>(row * of.c_stride + col) * size_of(of.c_type);
}

// Widens rows [row, ...) and columns [col, ...) of a matrix [rows, cols] to floats, in their stored order and without gaps.
Matrix widen_piece(DType type, const HalfMatrix& from, std::int64_t rows, std::int64_t cols, float* to) {
  const std::int64_t stored = from.transposed ? cols : rows, length = from.transposed ? rows : cols;
  for (std::int64_t i = 0; i < stored; ++i) widen(type, from.data + i * from.stride, length, to + i * length);
  return {to, length, from.transposed};
}

// Stores a product as the piece of c at (row, col), plus c's old values if the product accumulates.
void store(const HalfProduct& of, const Product& made, std::int64_t row, std::int64_t col, float* old) {
  for (std::int64_t i = 0; i < made.m; ++i) {
    void* const to = static_cast<char*>(of.c) + bytes_from(of, row + i, col);
    float* const sums = made.c + i * made.c_stride;
    if (of.accumulate) {
      widen(of.c_type, to, made.n, old);
      for (std::int64_t j = 0; j < made.n; ++j) sums[j] += old[j];
    }
    narrow(of.c_type, sums, made.n, to);
  }
}

void clear_product(const HalfProduct& of) {
  for (std::int64_t row = 0; row < of.m; ++row)
    std::fill_n(static_cast<char*>(of.c) + bytes_from(of, row, 0), static_cast<std::size_t>(of.n) * size_of(of.c_type), 0);
}

}  // namespace

void widened_gemm(const HalfProduct& of) {
  const std::int64_t rows = std::min(of.m, piece), cols = std::min(of.n, piece);
  const Floats a(rows * of.k), b(cols * of.k), made(rows * cols), old(cols);
  for (std::int64_t col = 0; col < of.n; col += cols) {
    const std::int64_t n = std::min(cols, of.n - col);
    const HalfMatrix right{of.b.at(0, col), of.b.stride, of.b.transposed};
    const Matrix wide_b = widen_piece(of.type, right, of.k, n, b.data());
    for (std::int64_t row = 0; row < of.m; row += rows) {
      const std::int64_t m = std::min(rows, of.m - row);
      const HalfMatrix left{of.a.at(row, 0), of.a.stride, of.a.transposed};
      const Matrix wide_a = widen_piece(of.type, left, m, of.k, a.data());
      const Product product{.m = m, .n = n, .k = of.k, .a = wide_a, .b = wide_b, .c = made.data(), .c_stride = n};
      sgemm(product);
      store(of, product, row, col, old.data());
    }
  }
}

void half_gemm(const HalfProduct& product) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) {
    if (!product.accumulate) clear_product(product);
    return;
  }
  if (half_products(product.type).native) return onednn_gemm(product);
  widened_gemm(product);
}

}  // namespace pipetrain::cpu
