// Learning-rate schedules. They count the steps that the optimizer applies, from 1; skipped steps do not count.
#pragma once

#include <cstdint>

namespace pipetrain {

// With W warm-up steps and N steps in all:
//   step s <= W:  initial + (peak - initial) * s / (W + 1), so that no step has rate 0 and step W + 1 is the first at the peak;
//   after them, with progress p = (s - W - 1) / (N - W), at most 1:
//     constant: peak
//     linear:   minimum + (peak - minimum) * (1 - p)
//     cosine:   minimum + (peak - minimum) * (1 + cos(pi p)) / 2   (Loshchilov and Hutter 2017)
// The first step after the warm-up has p = 0; step N has p = (N - W - 1) / (N - W), one step before the minimum, which every
// step after N has. N is not used by constant; linear and cosine need N > W, else the minimum follows the warm-up.
struct LearningRate {
  enum class Kind { constant, linear, cosine } kind = Kind::cosine;
  double peak = 3e-4;
  double minimum = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;
  double initial = 0;  // the rate from which the warm-up rises

  double at(std::int64_t step) const;
};

}  // namespace pipetrain
