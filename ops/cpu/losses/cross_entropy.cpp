#include <algorithm>
#include <cmath>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {

void row_max(CpuStream& stream, const CrossEntropyArgs& args, const LossSums& found) {
  const std::int64_t cols = args.vocabulary.count;
  for_row_tiles(stream, args.logits.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows logits(args.logits, cols);
    for (std::int64_t row = begin; row < end; ++row)
      found.maxima.as<float>()[row] = cols > 0 ? lane_max(logits[row], cols) : -INFINITY;
  });
}

void row_sums(CpuStream& stream, const CrossEntropyArgs& args, const LossSums& found) {
  const std::int64_t rows = args.logits.rows(), cols = args.vocabulary.count;
  for_row_tiles(stream, rows, cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows logits(args.logits, cols);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* logit = logits[row];
      const float most = found.maxima.as<float>()[row];
      const std::int64_t target = args.targets.as<std::int32_t>()[row] - args.vocabulary.first;
      found.sums.as<float>()[row] = lane_sum(cols, [=](std::int64_t i) { return fast_exp(logit[i] - most); });
      found.sums.as<float>()[rows + row] = target >= 0 && target < cols ? logit[target] : 0.0F;
    }
  });
}

void token_losses(const CrossEntropyArgs& args, const LossSums& found) {
  const std::int64_t rows = args.targets.elements();
  double total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float norm = found.maxima.as<float>()[row] + std::log(found.sums.as<float>()[row]);
    args.log_sum_exp.as<float>()[row] = norm;
    const bool counts = args.targets.as<std::int32_t>()[row] >= 0;
    const float loss = counts ? norm - found.sums.as<float>()[rows + row] : 0.0F;
    total += loss;
    if (args.token_losses) args.token_losses->as<float>()[row] = loss;
  }
  args.loss_sum.as<double>()[0] = total;
}

void cross_entropy_backward(CpuStream& stream, const CrossEntropyBackwardArgs& args) {
  const std::int64_t stride = args.logits.cols(), cols = args.vocabulary.count;
  for_row_tiles(stream, args.logits.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows logits(args.logits);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t id = args.targets.as<std::int32_t>()[row];
      const float norm = args.log_sum_exp.as<float>()[row],
                  scale = args.token_scales ? args.scale * args.token_scales->as<float>()[row] : args.scale,
                  weight = id >= 0 ? scale : 0.0F;
      const std::int64_t target = id - args.vocabulary.first;
      logits.update(row, [&](float* logit) {
        for (std::int64_t i = 0; i < cols; ++i) logit[i] = weight * fast_exp(logit[i] - norm);
        std::fill(logit + cols, logit + stride, 0.0F);
        if (id >= 0 && target >= 0 && target < cols) logit[target] -= scale;
      });
    }
  });
}

void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) {
  const std::int64_t cols = rows.shape[1], runs = rows.shape[0], length = targets.elements() / runs;
  const Rows rows_of(logits, cols);
  for (std::int64_t run = 0; run < runs; ++run) {
    const auto* const first = targets.as<std::int32_t>() + run * length;
    std::int64_t last = length - 1;
    while (last >= 0 && first[last] < 0) --last;
    double* const out = rows.as<double>() + run * cols;
    std::fill_n(out, cols, 0.0);
    if (last >= 0) std::copy_n(rows_of[run * length + last], cols, out);
  }
}

}  // namespace pipetrain::cpu
