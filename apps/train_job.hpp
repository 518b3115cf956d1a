// From checked options to a job: reads the model's configuration, opens weights and data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/trainer.hpp"
#include "apps/train_options.hpp"

namespace pipetrain {

// Throws Error(input) for a model or data that is wrong, or that do not go together, and for what resume.hpp refuses. What a
// user should know of, such as a damaged checkpoint that was passed over, is added to `notes`, for stderr.
TrainJob make_train_job(const TrainOptions& options, std::vector<std::string>& notes);

// When a run ends.
struct RunLength {
  std::int64_t steps = 0;            // at most
  std::int64_t least_steps = 0;      // before loss_ratio may end it
  std::optional<double> loss_ratio;  // ends when the loss is below this share of the first step's

  // Whether a run ends with this step.
  bool ends(std::int64_t step, double loss, double first_loss) const;
};

// With neither --steps nor --epochs: one epoch; of the inside text at least one, then until the loss is below 0.8 of the
// first, at most ten. A learning rate of 0 never lowers the loss: one epoch.
RunLength run_length(const TrainOptions& options, std::int64_t steps_per_epoch);

}  // namespace pipetrain
