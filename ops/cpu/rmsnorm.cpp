#include <cmath>
#include <cstring>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

// The weight plus the offset, as floats.
class Gains {
 public:
  Gains(const Tensor& weight, float offset) : weight_(weight), sums_(offset == 0 ? 0 : weight.elements()) {
    const float* const from = weight_;
    if (offset == 0) return;
    for (std::int64_t i = 0; i < weight.elements(); ++i) sums_.data()[i] = from[i] + offset;
    data_ = sums_.data();
  }
  operator const float*() const { return data_ != nullptr ? data_ : static_cast<const float*>(weight_); }

 private:
  Vector weight_;
  Floats sums_;
  const float* data_ = nullptr;
};

}  // namespace

void rms_norm(CpuStream& stream, const RmsNormArgs& args) {
  const std::int64_t cols = args.x.cols();
  const Gains gains(args.weight, args.offset);
  const float* const gain = gains;
  const float eps = args.eps;
  for_row_tiles(stream, args.x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows x(args.x), y(args.y);
    const OptionalRows residual(args.residual);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* in = x[row];
      const double squares = lane_sum<double>(cols, [in](std::int64_t i) { return static_cast<double>(in[i]) * in[i]; });
      const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(cols) + eps));
      args.inv_rms.as<float>()[row] = scale;
      y.write(row, [&](float* out) {
        if (const float* const added = residual[row]; added != nullptr) {
          for (std::int64_t i = 0; i < cols; ++i) out[i] = added[i] + in[i] * scale * gain[i];
        } else {
          for (std::int64_t i = 0; i < cols; ++i) out[i] = in[i] * scale * gain[i];
        }
      });
    }
  });
}

namespace {

// With g = dy * weight: dx = s g - x s^3 / H sum(g x), and dweight += dy x s, for s = inv_rms.
struct RmsNormRow {
  const float *dy, *x, *gain, *residual;  // residual: may be null
  float *dx, *dgain;
};
void rms_norm_backward_row(const RmsNormRow& row, float scale, std::int64_t cols) {
  const float *dy = row.dy, *x = row.x, *gain = row.gain, *residual = row.residual;
  float *dx = row.dx, *dgain = row.dgain;
  const double product = lane_sum<double>(cols, [&](std::int64_t i) { return static_cast<double>(dy[i] * gain[i]) * x[i]; });
  const auto pull = static_cast<float>(product * scale * scale * scale / static_cast<double>(cols));
  for (std::int64_t i = 0; i < cols; ++i) dgain[i] += dy[i] * x[i] * scale;
  if (residual != nullptr) {
    for (std::int64_t i = 0; i < cols; ++i) dx[i] = residual[i] + (dy[i] * gain[i] * scale - x[i] * pull);
  } else {
    for (std::int64_t i = 0; i < cols; ++i) dx[i] = dy[i] * gain[i] * scale - x[i] * pull;
  }
}

}  // namespace

void rms_norm_backward(CpuStream& stream, const RmsNormBackwardArgs& args, const Tensor& partial) {
  const std::int64_t rows = args.x.rows(), cols = args.x.cols(), tiles = partial.rows();
  const Gains gain(args.weight, args.offset);
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    float* sums = partial.as<float>() + tile * cols;
    std::memset(sums, 0, static_cast<std::size_t>(cols) * sizeof(float));
    const Rows dy(args.dy), x(args.x), dx(args.dx);
    const OptionalRows residual(args.residual);
    for (std::int64_t row = rows * tile / tiles; row < rows * (tile + 1) / tiles; ++row) {
      dx.write(row, [&](float* out) {
        rms_norm_backward_row({.dy = dy[row], .x = x[row], .gain = gain, .residual = residual[row], .dx = out, .dgain = sums},
                              args.inv_rms.as<float>()[row], cols);
      });
    }
  });
  float* total = args.dweight.as<float>();
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const float* sums = partial.as<float>() + tile * cols;
    for (std::int64_t i = 0; i < cols; ++i) total[i] += sums[i];
  }
}

}  // namespace pipetrain::cpu
