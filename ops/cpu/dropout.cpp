#include "ops/cpu/dropout_factors.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {
namespace {

constexpr std::int64_t drawn_run = 512;  // columns whose factors are drawn together

// The row's elements; residual: may be null.
struct DroppedRow {
  const float *x, *residual;
  float* out;
};
void dropout_row(const DropoutArgs& args, std::int64_t row, const DroppedRow& of) {
  const std::int64_t cols = args.x.cols(), token = args.first_token + row;
  const DropoutRow at{.sample = args.dropout.first_sample + static_cast<std::uint32_t>(token / args.sequence),
                      .row = static_cast<std::uint32_t>(token % args.sequence)};
  const auto [x, residual, out] = of;
  float factors[drawn_run];
  for (std::int64_t first = 0; first < cols; first += drawn_run) {
    const std::int64_t count = std::min(drawn_run, cols - first);
    dropout_factors(args.dropout, at, args.first_column + first, count, factors);
    for (std::int64_t i = 0; i < count; ++i) {
      const float kept = factors[i] == 0.0F ? 0.0F : x[first + i] * factors[i];
      out[first + i] = residual == nullptr ? kept : residual[first + i] + kept;
    }
  }
}

}  // namespace

void dropout(CpuStream& stream, const DropoutArgs& args) {
  for_row_tiles(stream, args.x.rows(), args.x.cols(), [&](std::int64_t begin, std::int64_t end) {
    const Rows x(args.x), outs(args.out);
    const OptionalRows residual(args.residual);
    for (std::int64_t row = begin; row < end; ++row)
      outs.write(row, [&](float* out) { dropout_row(args, row, {x[row], residual[row], out}); });
  });
}

}  // namespace pipetrain::cpu
