// Decides when the second moments of 1-bit Adam stop changing: Tang et al. 2021, "1-bit Adam: Communication Efficient
// Large-Scale Training with Adam's Convergence Speed", whose criterion is that the L1 norm of the moments has hardly changed
// over 1 / (1 - beta2) steps, a ratio of at least 0.96. That norm is the moving average of the squared gradient norms, so
// that nothing needs to be read from the moments, and the decision depends on no layout.
#pragma once

#include <cstdint>

#include "model/optimizer/learning_rate.hpp"

namespace pipetrain {

// The state that a resumed run needs.
struct VarianceState {
  double norm = 0;                // L1, of the second moments after the last applied step, without bias correction
  double earlier = 0;             // the norm when it was compared last
  std::int64_t steps = 0;         // applied since then
  std::int64_t frozen_after = 0;  // the applied steps after which the moments stay as they are; 0: they change
  double clip = 1;                // the mean factor by which clipping shortened gradients lately, until they stay
  bool operator==(const VarianceState&) const = default;
};

// Returns the applied steps before which a run's moments change in any case: those in which its learning rate warms up, and
// two thirds of all steps, since moments that are frozen while gradients still become other ones serve the rest of the run
// badly. With a quarter of fp32's bytes until then (int8) and a thirtieth after, a run sends less than a fifth of them.
std::int64_t least_warm_up(const LearningRate& rate);

// Not thread-safe.
class VarianceWarmUp {
 public:
  // least: see least_warm_up().
  VarianceWarmUp(double beta2, std::int64_t least, const VarianceState& state);

  const VarianceState& state() const { return state_; }
  // Returns the factor of the coming step's gradients. First moments of gradients that are not clipped would be longer than
  // those before, hence clipped themselves, and every time that they are they forget earlier gradients. 1 until the moments
  // stay.
  double gradient_factor() const { return state_.frozen_after > 0 ? state_.clip : 1; }
  // Call it after a step that was applied. grad_norm: L2. clip: the factor by which it was clipped. applied: all such steps so
  // far.
  void applied(double grad_norm, double clip, std::int64_t applied);

 private:
  double beta2_;
  std::int64_t least_, window_;
  VarianceState state_;
};

}  // namespace pipetrain
