#include <cblas.h>

#include <algorithm>
#include <vector>

#include "model/cpu/kernels.hpp"

namespace pipetrain::cpu {
namespace {

// The result matrix cut into tiles: enough of them for a dozen threads, none so small that packing its operands shows.
struct Grid {
  std::int64_t rows = 1, cols = 1;

  Grid(std::int64_t m, std::int64_t n, std::int64_t k) {
    constexpr std::int64_t most_tiles = 16, least_side = 96, least_products = 1 << 21;
    while (rows * cols < most_tiles && m * n * k / (rows * cols) >= 2 * least_products) {
      const bool split_rows = m / rows >= n / cols;
      if ((split_rows ? m / rows : n / cols) < 2 * least_side) break;
      (split_rows ? rows : cols) *= 2;
    }
  }
};

// Tile `at` of `tiles` along one side, cut at multiples of 16 so that vector kernels meet whole registers.
std::pair<std::int64_t, std::int64_t> cut(std::int64_t side, std::int64_t at, std::int64_t tiles) {
  const auto edge = [&](std::int64_t i) { return i == tiles ? side : side * i / tiles / 16 * 16; };
  return {edge(at), edge(at + 1)};
}

struct Operand {
  const float* data;
  std::int64_t stride;
  bool transposed;

  const float* from(std::int64_t row, std::int64_t col) const {
    return transposed ? data + col * stride + row : data + row * stride + col;
  }
};

// Row-major double copy of an operand [rows, cols].
void widen(const Operand& from, std::int64_t rows, std::int64_t cols, std::vector<double>& to) {
  to.resize(static_cast<std::size_t>(rows * cols));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) to[static_cast<std::size_t>(row * cols + col)] = *from.from(row, col);
  }
}

// Small products are summed in fp64: they cost little, and in small models Adam's first steps, which divide a gradient by its
// own size, turn the rounding of a few elements into changes of the loss that can be seen.
constexpr std::int64_t small_product = 1 << 22;  // multiplications

void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b, bool accumulate, float* c) {
  thread_local std::vector<double> wide_a, wide_b, wide_c;
  widen(a, m, k, wide_a);
  widen(b, k, n, wide_b);
  wide_c.resize(static_cast<std::size_t>(m * n));
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1,
              wide_a.data(), static_cast<int>(k), wide_b.data(), static_cast<int>(n), 0, wide_c.data(), static_cast<int>(n));
  for (std::int64_t i = 0; i < m * n; ++i) {
    c[i] = static_cast<float>(wide_c[static_cast<std::size_t>(i)] + (accumulate ? static_cast<double>(c[i]) : 0.0));
  }
}

// c [m, n] = a [m, k] b [k, n] + (accumulate ? c : 0)
void gemm(CpuStream& stream, std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b,
          bool accumulate, float* c) {
  if (m == 0 || n == 0) return;
  if (m * n * k <= small_product) return small_gemm(m, n, k, a, b, accumulate, c);
  const Grid grid(m, n, k);
  const auto tile = [&](std::int64_t index) {
    const auto [row, row_end] = cut(m, index / grid.cols, grid.rows);
    const auto [col, col_end] = cut(n, index % grid.cols, grid.cols);
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                static_cast<int>(row_end - row), static_cast<int>(col_end - col), static_cast<int>(k), 1, a.from(row, 0),
                static_cast<int>(a.stride), b.from(0, col), static_cast<int>(b.stride), accumulate ? 1.0F : 0.0F,
                c + row * n + col, static_cast<int>(n));
  };
  if (grid.rows * grid.cols == 1) return tile(0);
  stream.parallel_for(grid.rows * grid.cols, tile);
}

}  // namespace

void use_single_threaded_blas() { openblas_set_num_threads(1); }

void matmul(CpuStream& stream, MatmulKind kind, const Tensor& x, const Tensor& w, bool accumulate, const Tensor& out) {
  const bool forward = kind == MatmulKind::forward;
  const std::int64_t inner = x.cols(), cols = forward ? w.shape[0] : w.shape[1];
  gemm(stream, x.rows(), cols, inner, {x.as<float>(), inner, false}, {w.as<float>(), w.shape[1], forward}, accumulate,
       out.as<float>());
}

void weight_grad(CpuStream& stream, const Tensor& dy, const Tensor& x, const Tensor& dw) {
  gemm(stream, dy.cols(), x.cols(), dy.rows(), {dy.as<float>(), dy.cols(), true}, {x.as<float>(), x.cols(), false}, true,
       dw.as<float>());
}

}  // namespace pipetrain::cpu
