#include "model/optimizer/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pipetrain {

double LearningRate::at(std::int64_t step) const {
  if (step <= warmup_steps)
    return initial + (peak - initial) * static_cast<double>(step) / static_cast<double>(warmup_steps + 1);
  if (kind == Kind::constant) return peak;
  const auto done = static_cast<double>(step - warmup_steps - 1);
  const auto length = static_cast<double>(total_steps - warmup_steps);
  const double progress = length <= 0 ? 1 : std::min(1.0, done / length);
  const double share = kind == Kind::linear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return minimum + (peak - minimum) * share;
}

}  // namespace pipetrain
