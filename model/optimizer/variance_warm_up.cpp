#include "model/optimizer/variance_warm_up.hpp"

#include <algorithm>
#include <cmath>

namespace pipetrain {
namespace {

constexpr double least_ratio = 0.96;
constexpr double longest_window = 1e9;  // where beta2 is 1 or nearly so

}  // namespace

std::int64_t least_warm_up(const LearningRate& rate) { return std::max(rate.warmup_steps, (2 * rate.total_steps + 2) / 3); }

VarianceWarmUp::VarianceWarmUp(double beta2, std::int64_t least, const VarianceState& state)
    : beta2_(beta2),
      least_(least),
      window_(static_cast<std::int64_t>(std::round(std::min(1 / std::max(1 - beta2, 1e-12), longest_window)))),
      state_(state) {}

// A norm that falls is as unsettled as one that rises, so the ratio is that of the smaller one to the larger one.
void VarianceWarmUp::applied(double grad_norm, double clip, std::int64_t applied) {
  if (state_.frozen_after > 0) return;
  const double clipped = grad_norm * clip;
  state_.norm = beta2_ * state_.norm + (1 - beta2_) * clipped * clipped;
  state_.clip = beta2_ * state_.clip + (1 - beta2_) * clip;
  if (++state_.steps < window_) return;
  const auto [smaller, larger] = std::minmax(state_.norm, state_.earlier);
  if (applied >= least_ && smaller > 0 && smaller >= least_ratio * larger) state_.frozen_after = applied;
  state_.earlier = state_.norm;
  state_.steps = 0;
}

}  // namespace pipetrain
