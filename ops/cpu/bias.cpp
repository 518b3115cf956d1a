#include "ops/cpu/column_sums.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void add_bias(CpuStream& stream, const Tensor& x, const Tensor& bias) {
  const std::int64_t cols = x.cols();
  const float* add = bias.as<float>();
  for_row_tiles(stream, x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* values = x.as<float>() + row * cols;
      for (std::int64_t i = 0; i < cols; ++i) values[i] += add[i];
    }
  });
}

void bias_grad(CpuStream& stream, const Tensor& dy, const Tensor& dbias, const Tensor& partial) {
  const std::int64_t cols = dy.cols();
  add_column_sums(stream, dy.rows(), partial, dbias, [&](std::int64_t row, float* sums) {
    const float* values = dy.as<float>() + row * cols;
    for (std::int64_t i = 0; i < cols; ++i) sums[i] += values[i];
  });
}

}  // namespace pipetrain::cpu
