#include <cmath>
#include <cstring>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

struct RowStatistics {
  float mean, inv_std;
};

// Computes the variance from the distances to the mean, because the difference of two large sums would lose its digits.
RowStatistics statistics(const float* x, std::int64_t cols, float eps) {
  const auto count = static_cast<double>(cols);
  const double mean = lane_sum<double>(cols, [x](std::int64_t i) { return static_cast<double>(x[i]); }) / count;
  const double squares = lane_sum<double>(cols, [x, mean](std::int64_t i) {
    const double distance = x[i] - mean;
    return distance * distance;
  });
  return {static_cast<float>(mean), static_cast<float>(1.0 / std::sqrt(squares / count + eps))};
}

// With g = dy * weight and n = (x - mean) s, for s = inv_std: dx = s (g - mean(g) - n mean(g n)), dweight += dy n, dbias += dy.
struct LayerNormRow {
  const float *dy, *x, *gain, *residual;  // residual: may be null
  float *dx, *dgain, *dbias;
};
void layer_norm_backward_row(const LayerNormRow& of, RowStatistics row, std::int64_t cols) {
  const float *dy = of.dy, *x = of.x, *gain = of.gain, *residual = of.residual;
  float *dx = of.dx, *dgain = of.dgain, *dbias = of.dbias;
  const auto count = static_cast<double>(cols);
  const auto normal = [=](std::int64_t i) { return (x[i] - row.mean) * row.inv_std; };
  const auto level =
      static_cast<float>(lane_sum<double>(cols, [&](std::int64_t i) { return static_cast<double>(dy[i] * gain[i]); }) / count);
  const auto slope = static_cast<float>(
      lane_sum<double>(cols, [&](std::int64_t i) { return static_cast<double>(dy[i] * gain[i]) * normal(i); }) / count);
  for (std::int64_t i = 0; i < cols; ++i) dgain[i] += dy[i] * normal(i);
  for (std::int64_t i = 0; i < cols; ++i) dbias[i] += dy[i];
  if (residual != nullptr) {
    for (std::int64_t i = 0; i < cols; ++i) {
      dx[i] = residual[i] + row.inv_std * (dy[i] * gain[i] - level - normal(i) * slope);
    }
  } else {
    for (std::int64_t i = 0; i < cols; ++i) dx[i] = row.inv_std * (dy[i] * gain[i] - level - normal(i) * slope);
  }
}

}  // namespace

void layer_norm(CpuStream& stream, const LayerNormArgs& args) {
  const std::int64_t cols = args.x.cols();
  const Vector gains(args.weight), shifts(args.bias);
  const float *const gain = gains, *const shift = shifts;
  for_row_tiles(stream, args.x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows x(args.x), y(args.y);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* in = x[row];
      const RowStatistics found = statistics(in, cols, args.eps);
      args.mean.as<float>()[row] = found.mean;
      args.inv_std.as<float>()[row] = found.inv_std;
      y.write(row, [&](float* out) {
        for (std::int64_t i = 0; i < cols; ++i) out[i] = (in[i] - found.mean) * found.inv_std * gain[i] + shift[i];
      });
    }
  });
}

void layer_norm_backward(CpuStream& stream, const LayerNormBackwardArgs& args, const Tensor& partial) {
  const std::int64_t rows = args.x.rows(), cols = args.x.cols(), tiles = partial.rows();
  const Vector gain(args.weight);
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    float* sums = partial.as<float>() + tile * 2 * cols;
    std::memset(sums, 0, static_cast<std::size_t>(2 * cols) * sizeof(float));
    const Rows dy(args.dy), x(args.x), dx(args.dx);
    const OptionalRows residual(args.residual);
    for (std::int64_t row = rows * tile / tiles; row < rows * (tile + 1) / tiles; ++row) {
      dx.write(row, [&](float* out) {
        layer_norm_backward_row({.dy = dy[row],
                                 .x = x[row],
                                 .gain = gain,
                                 .residual = residual[row],
                                 .dx = out,
                                 .dgain = sums,
                                 .dbias = sums + cols},
                                {args.mean.as<float>()[row], args.inv_std.as<float>()[row]}, cols);
      });
    }
  });
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const float* sums = partial.as<float>() + tile * 2 * cols;
    for (std::int64_t i = 0; i < cols; ++i) args.dweight.as<float>()[i] += sums[i];
    for (std::int64_t i = 0; i < cols; ++i) args.dbias.as<float>()[i] += sums[cols + i];
  }
}

}  // namespace pipetrain::cpu
