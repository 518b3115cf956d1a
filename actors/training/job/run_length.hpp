// Determines when a run ends.
#pragma once

#include <cstdint>
#include <optional>

namespace pipetrain {

struct RunSettings;

struct RunLength {
  std::int64_t steps = 0;            // at most
  std::int64_t least_steps = 0;      // before loss_ratio may end it
  std::optional<double> loss_ratio;  // ends when the loss is below this share of the first step's

  // True when a run ends with this step.
  bool ends(std::int64_t step, double loss, double first_loss) const;
};

// Without steps and epochs: one epoch; for the built-in text, at least one and at most ten epochs, until the loss is
// below 0.8 of the first. A learning rate of 0 never lowers the loss: one epoch.
RunLength run_length(const RunSettings& settings, std::int64_t steps_per_epoch);

}  // namespace pipetrain
