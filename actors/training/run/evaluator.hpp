// Evaluates by forward passes through the training pipeline.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/input/step_samples.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/run/class_tally.hpp"
#include "actors/training/run/evaluation.hpp"

namespace pipetrain {

class Pipeline;
class PreferencePasses;
class StepResults;

// Returns the samples that the job is evaluated on; null where it has no such data.
std::shared_ptr<const StepSamples> evaluation_samples(const TrainJob& job);

// Evaluates a job on its evaluation data. Not thread-safe. Losses of microbatches are added in the order of samples, so
// the sum does not depend on how many microbatches or replicas a step has.
class Evaluator {
 public:
  // The results must outlive this. samples: evaluation_samples(job), not null.
  Evaluator(const TrainJob& job, std::shared_ptr<const StepSamples> samples, const StepResults& results);

  // Runs between two steps and changes neither weights nor the results of later steps. Returns no value when `stop`,
  // which is asked before every step, became true. content: of each step, see StepInfo. Throws RunFailed.
  std::optional<Evaluation> run(Pipeline& pipeline, const std::shared_ptr<const std::vector<std::byte>>& content,
                                const std::function<bool()>& stop) const;
  // The same for a loss of preferences.
  std::optional<Evaluation> run(Pipeline& pipeline, PreferencePasses& passes, const std::function<bool()>& stop) const;

 private:
  void tally(const std::vector<StageResult>& results, std::int64_t step, ClassTally& classes) const;

  std::shared_ptr<const StepSamples> samples_;
  const StepResults& results_;
  std::optional<PreferenceFormula> preference_;
  std::int64_t classes_;  // 0: a language model
  int pieces_;            // slices of a replica's microbatches in a step
};

}  // namespace pipetrain
