#include "apps/train/stop_grace.hpp"

namespace pipetrain {

bool StopGrace::fits_step(bool saves, const std::optional<Seconds>& save_time) const {
  const double step = step_seconds_;
  if (!grace_ || step == 0) return true;
  const Seconds grace = *grace_;
  const Seconds save = saves ? save_time.value_or(grace / 2) : Seconds{0};
  return Seconds(step) + save <= 0.9 * grace;  // an earlier checkpoint may still be on its way to the disk
}

}  // namespace pipetrain
