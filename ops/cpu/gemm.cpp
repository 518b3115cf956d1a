#include <algorithm>
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

// The threads that compute one product: those of a stream, or the calling one alone.
using Threads = CpuStream*;
constexpr Threads calling_thread = nullptr;

// Computes the product's tiles: calls multiply(part), whose c is the tile that begins at (row, col).
template <class AnyProduct, class Multiply>
void gemm(Threads threads, const AnyProduct& whole, const Multiply& multiply) {
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
  const std::int64_t tiles = grid.rows * grid.cols;
  if (tiles > 1 && threads != calling_thread) return threads->parallel_for(tiles, tile);
  for (std::int64_t index = 0; index < tiles; ++index) tile(index);
}

void gemm(Threads threads, const Product& whole) {
  if (whole.m == 0 || whole.n == 0) return;
  if (whole.m * whole.n * whole.k <= small_products) return precise_gemm(whole);
  gemm(threads, whole, [](Product& part, std::int64_t offset) {
    part.c += offset;
    sgemm(part);
  });
}

void gemm(Threads threads, const HalfProduct& whole) {
  gemm(threads, whole, [](HalfProduct& part, std::int64_t offset) {
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

void gemm(Threads threads, const Size& size, const Operand& a, const Operand& b, bool accumulate, const Tensor& c) {
  if (a.tensor.dtype == DType::f32) {
    gemm(threads, Product{.m = size.m,
                          .n = size.n,
                          .k = size.k,
                          .a = {a.tensor.as<float>(), a.stride, a.transposed},
                          .b = {b.tensor.as<float>(), b.stride, b.transposed},
                          .c = c.as<float>(),
                          .c_stride = size.n,
                          .beta = accumulate ? 1.0F : 0.0F});
  } else {
    gemm(threads, HalfProduct{.m = size.m,
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

void multiply(Threads threads, MatmulKind kind, const Tensor& x, const Tensor& w, bool accumulate, const Tensor& out) {
  const bool forward = kind == MatmulKind::forward;
  const std::int64_t inner = x.cols(), cols = forward ? w.shape[0] : w.shape[1];
  gemm(threads, {x.rows(), cols, inner}, {x, inner, false}, {w, w.shape[1], forward}, accumulate, out);
}

void multiply_for_weight(Threads threads, const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dw) {
  const std::int64_t rows = dw.rows(), cols = dw.cols();  // without tokens dy and x have no shape to read them from
  gemm(threads, {rows, cols, dy.rows()}, {dy, rows, true}, {x, cols, false}, accumulate, dw);
}

// The rows of one expert, and the number of the expert.
struct ExpertRows {
  std::int64_t expert, begin, end;
};

// Calls product(threads, rows) for each expert. Small products are spread over the stream's threads, one a thread; of large
// ones each is spread by itself, which changes no bit. `multiplications`: of one row.
template <class OneProduct>
void for_each_expert(CpuStream& stream, const Tensor& offsets, std::int64_t multiplications, const OneProduct& product) {
  constexpr std::int64_t large = std::int64_t{1} << 24;
  const std::int64_t experts = offsets.elements() - 1;
  const auto* const first = offsets.as<std::int32_t>();
  const auto rows_of = [&](std::int64_t expert) { return ExpertRows{expert, first[expert], first[expert + 1]}; };
  if (experts > 1 && first[experts] * multiplications / experts < large)
    return stream.parallel_for(experts, [&](std::int64_t expert) { product(calling_thread, rows_of(expert)); });
  for (std::int64_t expert = 0; expert < experts; ++expert) product(&stream, rows_of(expert));
}

}  // namespace

void matmul(CpuStream& stream, MatmulKind kind, const Tensor& x, const Tensor& w, bool accumulate, const Tensor& out) {
  multiply(&stream, kind, x, w, accumulate, out);
}

void weight_grad(CpuStream& stream, const Tensor& dy, const Tensor& x, bool accumulate, const Tensor& dw) {
  multiply_for_weight(&stream, dy, x, accumulate, dw);
}

void grouped_matmul(CpuStream& stream, const GroupedMatmulArgs& args) {
  const std::int64_t size = args.w.rows() / (args.offsets.elements() - 1);
  for_each_expert(stream, args.offsets, args.w.cols() * size, [&](Threads threads, const ExpertRows& rows) {
    if (rows.begin == rows.end) return;
    multiply(threads, args.kind, args.in.row_range(rows.begin, rows.end),
             args.w.row_range(rows.expert * size, (rows.expert + 1) * size), false, args.out.row_range(rows.begin, rows.end));
  });
}

void grouped_weight_grad(CpuStream& stream, const GroupedWeightGradArgs& args) {
  const std::int64_t size = args.dw.rows() / (args.offsets.elements() - 1);
  const bool adds = args.accumulate == Accumulate::yes;
  for_each_expert(stream, args.offsets, args.dw.cols() * size, [&](Threads threads, const ExpertRows& rows) {
    const Tensor dw = args.dw.row_range(rows.expert * size, (rows.expert + 1) * size);
    if (rows.begin < rows.end)
      multiply_for_weight(threads, args.dy.row_range(rows.begin, rows.end), args.x.row_range(rows.begin, rows.end), adds, dw);
    else if (!adds)
      std::fill_n(dw.as<float>(), dw.elements(), 0.0F);
  });
}

}  // namespace pipetrain::cpu
