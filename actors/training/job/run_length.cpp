#include "actors/training/job/run_length.hpp"

#include <algorithm>

#include "actors/training/job/run_settings.hpp"

namespace pipetrain {

bool RunLength::ends(std::int64_t step, double loss, double first_loss) const {
  return step >= steps || (loss_ratio && step >= least_steps && loss < *loss_ratio * first_loss);
}

RunLength run_length(const RunSettings& settings, std::int64_t steps_per_epoch) {
  constexpr std::int64_t most_epochs = 10;
  const auto& [given_steps, given_epochs] = settings.length;
  if (!given_steps && !given_epochs) {
    if (!settings.data.inputs.empty() || settings.learning_rate.peak == 0) return {steps_per_epoch, 0, {}};
    return {most_epochs * steps_per_epoch, steps_per_epoch, 0.8};
  }
  RunLength length{given_steps.value_or(0), 0, {}};
  if (given_epochs) {
    const std::int64_t steps = *given_epochs * steps_per_epoch;
    length.steps = given_steps ? std::min(length.steps, steps) : steps;
  }
  return length;
}

}  // namespace pipetrain
