#include "actors/training/job/run_settings.hpp"

#include <cmath>

namespace pipetrain {

std::optional<PreferenceFormula> PreferenceSettings::formula() const {
  if (loss == TrainingLoss::lm) return std::nullopt;
  const PreferenceLoss own = loss == TrainingLoss::dpo    ? PreferenceLoss::dpo
                             : loss == TrainingLoss::orpo ? PreferenceLoss::orpo
                                                          : PreferenceLoss::kto;
  return PreferenceFormula{own, beta, normalize};
}

LearningRate LearningRateSettings::over(std::int64_t total_steps) const {
  const std::int64_t warmup =
      warmup_ratio ? static_cast<std::int64_t>(std::ceil(*warmup_ratio * static_cast<double>(total_steps))) : warmup_steps;
  return {kind, peak, minimum, warmup, total_steps, warmup_initial};
}

}  // namespace pipetrain
