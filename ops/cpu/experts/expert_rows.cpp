// The rows of tokens that experts compute, one for each token and chosen expert.
#include <algorithm>
#include <cstring>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void gather_rows(CpuStream& stream, const GatherRowsArgs& args) {
  const std::int64_t cols = args.x.cols();
  const std::size_t bytes = static_cast<std::size_t>(cols) * size_of(args.x.dtype);
  for_row_tiles(stream, used_rows(args.used, args.rows.rows()), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      std::memcpy(element_at(args.rows, row * cols), element_at(args.x, args.tokens.as<std::int32_t>()[row] * cols), bytes);
  });
}

void sum_rows(CpuStream& stream, const RowSums& sums) {
  const std::int64_t cols = sums.out.cols(), chosen = sums.places.cols();
  for_row_tiles(stream, sums.out.rows(), chosen * cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows rows(sums.rows), outs(sums.out);
    const OptionalRows addends(sums.addend), residuals(sums.residual);
    const Floats total(cols);
    for (std::int64_t token = begin; token < end; ++token) {
      std::fill_n(total.data(), cols, 0.0F);
      const auto add = [&, out = total.data()](const float* row) {
        for (std::int64_t i = 0; i < cols; ++i) out[i] += row[i];
      };
      for (std::int64_t c = 0; c < chosen; ++c) {
        const std::int32_t place = sums.places.as<std::int32_t>()[token * chosen + c];
        if (place >= 0) add(rows[place]);
      }
      if (const float* const addend = addends[token]) add(addend);
      if (const float* const residual = residuals[token]) add(residual);
      outs.write(token, [&](float* out) { std::copy_n(total.data(), cols, out); });
    }
  });
}

void weigh_rows(CpuStream& stream, const WeighRowsArgs& args) {
  const std::int64_t cols = args.y.cols();
  for_row_tiles(stream, used_rows(args.used, args.y.rows()), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows xs(args.x), ys(args.y);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const x = xs[row];
      const float weight = args.weights.as<float>()[row];
      ys.write(row, [&](float* y) {
        for (std::int64_t i = 0; i < cols; ++i) y[i] = weight * x[i];
      });
    }
  });
}

}  // namespace pipetrain::cpu
