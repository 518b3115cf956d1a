// Compares whether two runs trained alike, and how fast each was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records/metrics_line.hpp"

namespace pipetrain {

// The figures of one run. Medians are over its steps except the first, which warms up, if there are others; nothing if
// no step has the value.
struct RunFigures {
  std::int64_t first_step = 0, last_step = 0, steps = 0;
  std::optional<double> last_loss;
  std::optional<double> seconds, tokens_per_second, tflops_per_device, mfu, bubble;
  std::optional<std::int64_t> memory_bytes;  // of the fullest device, in the last step
};

// The largest difference of a value in any common step, as |a - b| / max(|a|, |b|); 1 if only one of them is known.
struct LargestDifference {
  double relative = 0;
  std::int64_t step = 0;  // the step of it; 0: none
};

struct FirstDifference {
  std::int64_t step = 0;
  std::string value;  // "loss"
  std::optional<double> a, b;
};

struct RunComparison {
  RunFigures a, b;
  std::int64_t common_steps = 0;  // steps of the same number
  LargestDifference loss, grad_norm, lr;
  std::optional<FirstDifference> first;  // of the bits of loss, gradient norm, rate, tokens and skipped
  bool same_work = true;                 // tokens and skipped are equal in all common steps

  bool equal_to_the_bit() const { return !first; }
  bool equal_within(double relative) const {
    return same_work && loss.relative <= relative && grad_norm.relative <= relative && lr.relative <= relative;
  }
};

// Both must be in ascending order of steps, with at least one step.
RunComparison compare_runs(const std::vector<StepMetrics>& a, const std::vector<StepMetrics>& b);

}  // namespace pipetrain
