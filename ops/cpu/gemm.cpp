#include <utility>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/sgemm.hpp"

namespace pipetrain::cpu {
namespace {

// Cuts the result matrix into tiles: enough of them for a dozen threads, and none so small that packing its operands costs much
// beside its product.
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

// The product with its tiles on all threads; c is dense.
void gemm(CpuStream& stream, const Product& whole) {
  if (whole.m == 0 || whole.n == 0) return;
  if (whole.m * whole.n * whole.k <= small_products) return precise_gemm(whole);
  const Grid grid(whole.m, whole.n, whole.k);
  const auto tile = [&](std::int64_t index) {
    const auto [row, row_end] = cut(whole.m, index / grid.cols, grid.rows);
    const auto [col, col_end] = cut(whole.n, index % grid.cols, grid.cols);
    Product part = whole;
    part.m = row_end - row;
    part.n = col_end - col;
    part.a.data = whole.a.at(row, 0);
    part.b.data = whole.b.at(0, col);
    part.c = whole.c + row * whole.c_stride + col;
    sgemm(part);
  };
  if (grid.rows * grid.cols == 1) return tile(0);
  stream.parallel_for(grid.rows * grid.cols, tile);
}

}  // namespace

void matmul(CpuStream& stream, MatmulKind kind, const Tensor& x, const Tensor& w, bool accumulate, const Tensor& out) {
  const bool forward = kind == MatmulKind::forward;
  const std::int64_t inner = x.cols(), cols = forward ? w.shape[0] : w.shape[1];
  gemm(stream, {.m = x.rows(),
                .n = cols,
                .k = inner,
                .a = {x.as<float>(), inner, false},
                .b = {w.as<float>(), w.shape[1], forward},
                .c = out.as<float>(),
                .c_stride = cols,
                .beta = accumulate ? 1.0F : 0.0F});
}

void weight_grad(CpuStream& stream, const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dw) {
  const std::int64_t rows = dw.rows(), cols = dw.cols();  // without tokens dy and x have no shape to read them from
  gemm(stream, {.m = rows,
                .n = cols,
                .k = dy.rows(),
                .a = {dy.as<float>(), rows, true},
                .b = {x.as<float>(), cols, false},
                .c = dw.as<float>(),
                .c_stride = cols,
                .beta = accumulate ? 1.0F : 0.0F});
}

}  // namespace pipetrain::cpu
