// An RMSNorm whose rows several ranks hold in parts.
#include <cmath>

#include "ops/cpu/column_sums.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {

void row_dots(CpuStream& stream, const RowDotsArgs& args) {
  const std::int64_t cols = args.a.cols();
  std::optional<Tensor> weights;
  if (args.weight) weights = args.weight->reshaped({1, cols});
  for_row_tiles(stream, args.a.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows a(args.a), b(args.b);
    const OptionalRows weight(weights);
    const float* const w = weight[0];
    for (std::int64_t row = begin; row < end; ++row) {
      const float *x = a[row], *y = b[row];
      const auto product = [&](std::int64_t i) { return static_cast<double>(x[i]) * y[i]; };
      const double sum = w == nullptr ? lane_sum<double>(cols, product)
                                      : lane_sum<double>(cols, [&](std::int64_t i) { return product(i) * w[i]; });
      args.sums.as<float>()[row] = static_cast<float>(sum);
    }
  });
}

void split_norm(CpuStream& stream, const SplitNormArgs& args) {
  const std::int64_t cols = args.x.cols();
  const Vector weight(args.weight);
  const float* const gain = weight;
  const auto columns = static_cast<double>(args.columns);
  for_row_tiles(stream, args.x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows x(args.x), y(args.y);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* in = x[row];
      const double squares = args.square_sums.as<float>()[row];
      const auto scale = static_cast<float>(1.0 / std::sqrt(squares / columns + args.eps));
      args.inv_rms.as<float>()[row] = scale;
      y.write(row, [&](float* out) {
        for (std::int64_t i = 0; i < cols; ++i) out[i] = in[i] * scale * gain[i];
      });
    }
  });
}

// With s = inv_rms: dx = s dy weight - x s^3 / columns dots, and dweight += dy x s.
void split_norm_backward(CpuStream& stream, const SplitNormBackwardArgs& args, const Tensor& partial) {
  const std::int64_t cols = args.x.cols();
  const Vector weight(args.weight);
  const float* const gain = weight;
  const auto columns = static_cast<double>(args.columns);
  add_column_sums(stream, args.x.rows(), partial, args.dweight, [&](std::int64_t begin, std::int64_t end, float* dgain) {
    const Rows dys(args.dy), xs(args.x), dx(args.dx);
    for (std::int64_t row = begin; row < end; ++row) {
      const float *dy = dys[row], *x = xs[row];
      const float scale = args.inv_rms.as<float>()[row];
      const double dots = args.dots.as<float>()[row];
      const auto pull = static_cast<float>(dots * scale * scale * scale / columns);
      for (std::int64_t i = 0; i < cols; ++i) dgain[i] += dy[i] * x[i] * scale;
      dx.write(row, [&](float* out) {
        for (std::int64_t i = 0; i < cols; ++i) out[i] = dy[i] * gain[i] * scale - x[i] * pull;
      });
    }
  });
}

}  // namespace pipetrain::cpu
