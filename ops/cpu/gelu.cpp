#include "ops/cpu/column_sums.hpp"
#include "ops/cpu/gelu_gate.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {
namespace {

// Each function computes one row. To vectorise it, the compiler must know that no iteration reads what another has written:
// the forward's pointers never overlap, and the backward may write each gradient over its own value.
void gelu_forward_row(const float* __restrict x, const float* __restrict bias, float* __restrict y, std::int64_t cols) {
  for (std::int64_t i = 0; i < cols; ++i) {
    const float value = x[i] + bias[i];
    y[i] = value * gelu_gate(value);
  }
}

void gelu_backward_row(const float* dy, const float* x, const float* bias, float* dx, float* sums, std::int64_t cols) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < cols; ++i) {
    const float value = x[i] + bias[i], s = gelu_gate(value);
    const float grad = dy[i] * gelu_slope(value, s);
    dx[i] = grad;
    sums[i] += grad;
  }
}

}  // namespace

void gelu(CpuStream& stream, const Tensor& x, const Tensor& bias, const Tensor& y) {
  const std::int64_t cols = x.cols();
  const Vector shift(bias);
  for_row_tiles(stream, x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows in(x), outs(y);
    for (std::int64_t row = begin; row < end; ++row)
      outs.write(row, [&](float* out) { gelu_forward_row(in[row], shift, out, cols); });
  });
}

void gelu_backward(CpuStream& stream, const GeluBackwardArgs& args, const Tensor& partial) {
  const std::int64_t cols = args.x.cols();
  const Vector shift(args.bias);
  add_column_sums(stream, args.x.rows(), partial, args.dbias, [&](std::int64_t begin, std::int64_t end, float* sums) {
    const Rows dy(args.dy), x(args.x), dx(args.dx);
    for (std::int64_t row = begin; row < end; ++row)
      dx.write(row, [&](float* out) { gelu_backward_row(dy[row], x[row], shift, out, sums, cols); });
  });
}

}  // namespace pipetrain::cpu
