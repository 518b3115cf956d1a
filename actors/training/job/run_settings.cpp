#include "actors/training/job/run_settings.hpp"

#include <fmt/format.h>

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

std::string compression_text(const JobSettings& job) {
  if (job.compression.gradients == BlockCode::none) return {};
  const int hosts = job.compression.hosts;
  return fmt::format("{} over {} replicas{}, zero {}", name_of(job.compression.gradients), weight_copies(job.mesh_shape()),
                     hosts > 0 ? fmt::format(" on {} hosts", hosts) : "", job.zero.stage);
}

}  // namespace pipetrain
