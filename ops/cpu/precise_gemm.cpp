#include <algorithm>
#include <vector>

#include "ops/cpu/sgemm.hpp"

namespace pipetrain::cpu {
namespace {

// A tile of the result stays in registers: it has enough sums to hide the latency of two multiply-adds a cycle,
// and no more than an AVX2 machine has registers for.
constexpr std::int64_t lanes = 4, tile_rows = lanes, tile_vectors = 2, tile_cols = lanes * tile_vectors;
using Lanes [[gnu::vector_size(lanes * sizeof(double))]] = double;

std::int64_t panels_of(std::int64_t side, std::int64_t width) { return (side + width - 1) / width; }

// Copies to fp64 in panels of `width` rows (columns with `by_columns`), zero-filled at the end. Within a panel
// the inner dimension is slowest, so that the multiplication reads memory in order.
void pack(const Matrix& from, bool by_columns, std::int64_t side, std::int64_t inner, std::int64_t width,
          std::vector<Lanes>& to) {
  to.resize(static_cast<std::size_t>(panels_of(side, width) * width / lanes * inner));
  auto* out = reinterpret_cast<double*>(to.data());
  // The distances between adjacent elements along the side and along the inner dimension.
  const bool side_is_dense = by_columns != from.transposed;
  const std::int64_t side_step = side_is_dense ? 1 : from.stride, inner_step = side_is_dense ? from.stride : 1;
  for (std::int64_t first = 0; first < side; first += width) {
    const std::int64_t count = std::min(width, side - first);
    const float* in = from.data + first * side_step;
    for (std::int64_t i = 0; i < inner; ++i, out += width, in += inner_step) {
      for (std::int64_t j = 0; j < width; ++j) out[j] = j < count ? static_cast<double>(in[j * side_step]) : 0.0;
    }
  }
}

// out [tile_rows, tile_cols] = the product of two panels.
void multiply(std::int64_t inner, const Lanes* a, const Lanes* b, Lanes* out) {
  Lanes sum[tile_rows][tile_vectors] = {};
  for (std::int64_t i = 0; i < inner; ++i, ++a, b += tile_vectors) {
    for (std::int64_t row = 0; row < tile_rows; ++row) {
      for (std::int64_t vector = 0; vector < tile_vectors; ++vector) sum[row][vector] += (*a)[row] * b[vector];
    }
  }
  for (std::int64_t row = 0; row < tile_rows; ++row) {
    for (std::int64_t vector = 0; vector < tile_vectors; ++vector) out[row * tile_vectors + vector] = sum[row][vector];
  }
}

}  // namespace

void precise_gemm(const Product& product) {
  const auto [m, n, k, a, b, c, c_stride, alpha, beta] = product;
  thread_local std::vector<Lanes> wide_a, wide_b;  // rows of panels
  pack(a, false, m, k, tile_rows, wide_a);
  pack(b, true, n, k, tile_cols, wide_b);
  for (std::int64_t col = 0; col < n; col += tile_cols) {
    const std::int64_t cols = std::min(tile_cols, n - col);
    for (std::int64_t row = 0; row < m; row += tile_rows) {
      Lanes sums[tile_rows * tile_vectors];
      multiply(k, wide_a.data() + row / lanes * k, wide_b.data() + col / lanes * k, sums);
      for (std::int64_t i = 0; i < std::min(tile_rows, m - row); ++i) {
        float* out = c + (row + i) * c_stride + col;
        for (std::int64_t j = 0; j < cols; ++j) {
          out[j] = static_cast<float>(alpha * sums[i * tile_vectors + j / lanes][j % lanes] +
                                      (beta != 0 ? beta * static_cast<double>(out[j]) : 0.0));
        }
      }
    }
  }
}

}  // namespace pipetrain::cpu
