#include "model/optimizer/loss_scale.hpp"

#include <algorithm>
#include <cassert>

namespace pipetrain {

void LossScale::applied() {
  if (!settings_.dynamic || ++state_.good_steps < settings_.window) return;
  state_.good_steps = state_.overflows = 0;
  state_.scale *= 2;
}

bool LossScale::overflowed() {
  assert(settings_.dynamic);
  state_.good_steps = 0;
  if (++state_.overflows < settings_.hysteresis) return true;
  if (state_.scale <= settings_.minimum) return false;
  state_.scale = std::max(state_.scale / 2, settings_.minimum);
  return true;
}

}  // namespace pipetrain
