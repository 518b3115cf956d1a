// Runs the forward passes that a preference loss needs besides a step's own forwards and backwards: those of the reference, and
// for kto those of mismatched prompts and completions. They run between steps, through the same pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/training/input/preference_pass.hpp"
#include "actors/training/input/step_samples.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/run/preference_tally.hpp"
#include "actors/training/run/step_results.hpp"

namespace pipetrain {

class Pipeline;

class PreferencePasses {
 public:
  // evaluation: null where nothing is evaluated. The job and the results must outlive this.
  PreferencePasses(const TrainJob& job, const StepResults& results, std::shared_ptr<const StepSamples> training,
                   std::shared_ptr<const StepSamples> evaluation);

  // Makes the facts of the training step's sequences its content, and its number of rows the denominator of the loss. Where the
  // job says so, the first call computes the reference's log-probabilities of all data. All methods throw RunFailed.
  void prepare(Pipeline& pipeline, StepInfo& info);
  // Adds one step of the evaluation data to the tally.
  void evaluate(Pipeline& pipeline, std::int64_t step, PreferenceTally& tally);

 private:
  std::vector<SequenceSums> run(Pipeline& pipeline, std::int64_t step, const PreferencePass& pass) const;
  std::vector<SequenceFacts> facts(Pipeline& pipeline, std::int64_t step, bool on_training_data);
  void add_reference(Pipeline& pipeline, std::int64_t step, bool on_training_data, std::vector<SequenceFacts>& facts);
  void add_divergence(Pipeline& pipeline, std::int64_t step, bool on_training_data, std::vector<SequenceFacts>& facts) const;
  void add_likelihood_weight(const std::vector<SampleSize>& sizes, std::vector<SequenceFacts>& facts) const;
  void precompute(Pipeline& pipeline);

  const TrainJob& job_;
  PreferenceFormula formula_;
  const StepResults& results_;
  std::shared_ptr<const StepSamples> training_, evaluation_;
  int pieces_;  // slices of a replica's microbatches in a step
  // The reference's log-probabilities by sample; empty until they are known. Those of training data are kept only where they
  // are computed before training.
  std::vector<double> of_training_, of_evaluation_;
  static constexpr double unknown_logp = 1;  // no logarithm of a probability
  bool is_freed_ = false;                    // no pass needs the reference's weights any more
};

}  // namespace pipetrain
