#include "ops/cpu/column_sums.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void add_bias(CpuStream& stream, const Tensor& x, const Tensor& bias) {
  const std::int64_t cols = x.cols();
  const Vector biases(bias);
  const float* const add = biases;
  for_row_tiles(stream, x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows of(x);
    for (std::int64_t row = begin; row < end; ++row) {
      of.update(row, [&](float* values) {
        for (std::int64_t i = 0; i < cols; ++i) values[i] += add[i];
      });
    }
  });
}

void bias_grad(CpuStream& stream, const Tensor& dy, const Tensor& dbias, const Tensor& partial) {
  const std::int64_t cols = dy.cols();
  add_column_sums(stream, dy.rows(), partial, dbias, [&](std::int64_t begin, std::int64_t end, float* sums) {
    const Rows of(dy);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* values = of[row];
      for (std::int64_t i = 0; i < cols; ++i) sums[i] += values[i];
    }
  });
}

}  // namespace pipetrain::cpu
