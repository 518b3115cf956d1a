// Whether two runs trained the same, and how fast each was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records/metrics_line.hpp"

namespace pipetrain {

// Of one run. Medians are over its steps but the first, which warms up, where there are others; nothing where no step tells.
struct RunFigures {
  std::int64_t first_step = 0, last_step = 0, steps = 0;
  std::optional<double> last_loss;
  std::optional<double> seconds, tokens_per_second, tflops_per_device, mfu, bubble;
  std::optional<std::int64_t> memory_bytes;  // of the fullest device, in the last step
};

// The most that a value differs in any common step, as |a - b| / max(|a|, |b|); 1 where only one of them is known.
struct LargestDifference {
  double relative = 0;
  std::int64_t step = 0;  // where; 0: nowhere
};

struct FirstDifference {
  std::int64_t step = 0;
  std::string value;  // "loss"
  std::optional<double> a, b;
};

struct RunComparison {
  RunFigures a, b;
  std::int64_t common_steps = 0;  // of the same number
  LargestDifference loss, grad_norm, lr;
  std::optional<FirstDifference> first;  // to the bit, of loss, gradient norm, rate, tokens and skipped
  bool same_work = true;                 // tokens and skipped are equal in all common steps

  bool equal_to_the_bit() const { return !first; }
  bool equal_within(double relative) const {
    return same_work && loss.relative <= relative && grad_norm.relative <= relative && lr.relative <= relative;
  }
};

// Both in ascending order of steps, each at least one.
RunComparison compare_runs(const std::vector<StepMetrics>& a, const std::vector<StepMetrics>& b);

}  // namespace pipetrain
