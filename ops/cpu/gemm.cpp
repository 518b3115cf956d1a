#include <utility>

#include "ops/cpu/half_gemm.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/sgemm.hpp"

namespace pipetrain::cpu {
namespace {

// Cuts the result matrix into tiles: enough of them for a dozen threads, and none so small that packing its
// operands costs a large share of its product.
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

// Computes the product's tiles on all threads: calls multiply(part), whose c is the tile that begins at (row, col).
template <class AnyProduct, class Multiply>
void gemm(CpuStream& stream, const AnyProduct& whole, const Multiply& multiply) {
  const Grid grid(whole.m, whole.n, whole.k);
  const auto tile = [&](std::int64_t index) {
    const auto [row, row_end] = cut(whole.m, index / grid.cols, grid.rows);
    const auto [col, col_end] = cut(whole.n, index % grid.cols, grid.cols);
    AnyProduct part = whole;
    part.m = row_end - row;
    part.n = col_end - col;
    part.a.data = whole.a.at(row, 0);
    part.b.data = whole.b.at(0, col);
    multiply(part, row * whole.c_stride + col);
  };
  if (grid.rows * grid.cols == 1) return tile(0);
  stream.parallel_for(grid.rows * grid.cols, tile);
}

void gemm(CpuStream& stream, const Product& whole) {
  if (whole.m == 0 || whole.n == 0) return;
  if (whole.m * whole.n * whole.k <= small_products) return precise_gemm(whole);
  gemm(stream, whole, [](Product& part, std::int64_t offset) {
    part.c += offset;
    sgemm(part);
  });
}

void gemm(CpuStream& stream, const HalfProduct& whole) {
  gemm(stream, whole, [](HalfProduct& part, std::int64_t offset) {
    part.c = static_cast<char*>(part.c) + static_cast<std::size_t>(offset) * size_of(part.c_type);
    half_gemm(part);
  });
}

struct Size {
  std::int64_t m, n, k;
};
struct Operand {
  const Tensor& tensor;
  std::int64_t stride;
  bool transposed;
};

void gemm(CpuStream& stream, const Size& size, const Operand& a, const Operand& b, bool accumulate, const Tensor& c) {
  if (a.tensor.dtype == DType::f32) {
    gemm(stream, Product{.m = size.m,
                         .n = size.n,
                         .k = size.k,
                         .a = {a.tensor.as<float>(), a.stride, a.transposed},
                         .b = {b.tensor.as<float>(), b.stride, b.transposed},
                         .c = c.as<float>(),
                         .c_stride = size.n,
                         .beta = accumulate ? 1.0F : 0.0F});
  } else {
    gemm(stream, HalfProduct{.m = size.m,
                             .n = size.n,
                             .k = size.k,
                             .a = {a.tensor.as<std::uint16_t>(), a.stride, a.transposed},
                             .b = {b.tensor.as<std::uint16_t>(), b.stride, b.transposed},
                             .type = a.tensor.dtype,
                             .c = c.data,
                             .c_type = c.dtype,
                             .c_stride = size.n,
                             .accumulate = accumulate});
  }
}

}  // namespace

void matmul(CpuStream& stream, MatmulKind kind, const Tensor& x, const Tensor& w, bool accumulate, const Tensor& out) {
  const bool forward = kind == MatmulKind::forward;
  const std::int64_t inner = x.cols(), cols = forward ? w.shape[0] : w.shape[1];
  gemm(stream, {x.rows(), cols, inner}, {x, inner, false}, {w, w.shape[1], forward}, accumulate, out);
}

void weight_grad(CpuStream& stream, const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dw) {
  const std::int64_t rows = dw.rows(), cols = dw.cols();  // without tokens dy and x have no shape to read them from
  gemm(stream, {rows, cols, dy.rows()}, {dy, rows, true}, {x, cols, false}, accumulate, dw);
}

}  // namespace pipetrain::cpu
