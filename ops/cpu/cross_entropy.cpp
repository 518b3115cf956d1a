#include <algorithm>
#include <cmath>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {

void row_max(CpuStream& stream, const Tensor& logits, std::int64_t cols, const Tensor& maxima) {
  const std::int64_t stride = logits.cols();
  for_row_tiles(stream, logits.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      maxima.as<float>()[row] = cols > 0 ? lane_max(logits.as<float>() + row * stride, cols) : -INFINITY;
    }
  });
}

void row_sums(CpuStream& stream, const Tensor& logits, const Tensor& targets, const VocabularyRows& vocabulary,
              const Tensor& maxima, const Tensor& sums) {
  const std::int64_t rows = logits.rows(), stride = logits.cols(), cols = vocabulary.count;
  for_row_tiles(stream, rows, cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* logit = logits.as<float>() + row * stride;
      const float most = maxima.as<float>()[row];
      const std::int64_t target = targets.as<std::int32_t>()[row] - vocabulary.first;
      sums.as<float>()[row] = lane_sum(cols, [=](std::int64_t i) { return fast_exp(logit[i] - most); });
      sums.as<float>()[rows + row] = target >= 0 && target < cols ? logit[target] : 0.0F;
    }
  });
}

void token_losses(const Tensor& targets, const Tensor& maxima, const Tensor& sums, const Tensor& log_sum_exp,
                  const Tensor& loss_sum) {
  const std::int64_t rows = targets.elements();
  double total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float norm = maxima.as<float>()[row] + std::log(sums.as<float>()[row]);
    log_sum_exp.as<float>()[row] = norm;
    if (targets.as<std::int32_t>()[row] >= 0) total += norm - sums.as<float>()[rows + row];
  }
  loss_sum.as<double>()[0] = total;
}

void cross_entropy_backward(CpuStream& stream, const Tensor& logits, const Tensor& targets, const VocabularyRows& vocabulary,
                            const Tensor& log_sum_exp, float scale) {
  const std::int64_t stride = logits.cols(), cols = vocabulary.count;
  for_row_tiles(stream, logits.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* logit = logits.as<float>() + row * stride;
      const std::int32_t id = targets.as<std::int32_t>()[row];
      const float norm = log_sum_exp.as<float>()[row], weight = id >= 0 ? scale : 0.0F;
      for (std::int64_t i = 0; i < cols; ++i) logit[i] = weight * fast_exp(logit[i] - norm);
      std::fill(logit + cols, logit + stride, 0.0F);
      const std::int64_t target = id - vocabulary.first;
      if (id >= 0 && target >= 0 && target < cols) logit[target] -= scale;
    }
  });
}

}  // namespace pipetrain::cpu
