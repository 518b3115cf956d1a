#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {
namespace {

float rounded_to(DType type, float value) {
  if (type == DType::f32) return value;
  std::uint16_t bits = 0;
  narrow(type, &value, 1, &bits);
  widen(type, &bits, 1, &value);
  return value;
}

}  // namespace

void scale(CpuStream& stream, const ScaleArgs& args) {
  const std::int64_t cols = args.x.cols();
  const float factor = args.exact ? args.factor : rounded_to(args.x.dtype, args.factor);
  for_row_tiles(stream, args.x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows x(args.x), outs(args.out);
    const OptionalRows residual(args.residual);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const in = x[row];
      const float* const added = residual[row];
      outs.write(row, [&](float* out) {
        if (added != nullptr) {
          for (std::int64_t i = 0; i < cols; ++i) out[i] = added[i] + in[i] * factor;
        } else {
          for (std::int64_t i = 0; i < cols; ++i) out[i] = in[i] * factor;
        }
      });
    }
  });
}

}  // namespace pipetrain::cpu
