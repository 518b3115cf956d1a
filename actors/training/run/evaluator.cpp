#include "actors/training/run/evaluator.hpp"

#include <chrono>

#include "actors/engine/pipeline.hpp"
#include "actors/training/run/preference_passes.hpp"
#include "actors/training/run/step_results.hpp"
#include "core/error.hpp"

namespace pipetrain {

std::shared_ptr<const StepSamples> evaluation_samples(const TrainJob& job) {
  if (!job.evaluation) return nullptr;
  return std::make_shared<StepSamples>(StepSamples::once_in_order(job.evaluation, job.batch, sequence_chunks(job)));
}

Evaluator::Evaluator(const TrainJob& job, std::shared_ptr<const StepSamples> samples, const StepResults& results)
    : samples_(std::move(samples)),
      results_(results),
      preference_(job.config.preference),
      classes_(job.config.classifies() ? job.config.outputs() : 0),
      pieces_(static_cast<int>(job.batch.microbatches) * job.layout.slices) {}

// Adds classes in the order of the batch: see BatchShape.
void Evaluator::tally(const std::vector<StageResult>& results, std::int64_t step, ClassTally& classes) const {
  const std::vector<std::int64_t> batch = samples_->sampler().global_batch(step - 1);
  const std::int64_t of_replica = samples_->batch().microbatches * samples_->batch().microbatch;
  Sample sample;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i] == Sampler::no_sample) continue;
    samples_->dataset().read(batch[i], sample);
    const auto place = static_cast<std::int64_t>(i);
    classes.add(sample.labels.back(), results_.class_said(results, static_cast<int>(place / of_replica), place % of_replica));
  }
}

std::optional<Evaluation> Evaluator::run(Pipeline& pipeline, const std::shared_ptr<const std::vector<std::byte>>& content,
                                         const std::function<bool()>& stop) const {
  const auto start = std::chrono::steady_clock::now();
  LossSums sums;
  ClassTally classes(classes_);
  std::int64_t counted = 0;
  for (std::int64_t step = 1; step <= samples_->sampler().steps_per_epoch(); ++step) {
    if (stop()) return std::nullopt;
    counted += samples_->size(step).counted;
    const StepInfo info{.step = step, .microbatches = pieces_, .kind = schedules::StepKind::evaluation, .content = content};
    std::vector<StageResult> reported;
    pipeline.step(info, [&](const std::vector<StageResult>& results) {
      reported = results;
      return Verdict{.apply = false};
    });
    results_.add_losses(reported, info.kind, sums);
    if (classes_ > 0) tally(reported, step, classes);
  }
  if (counted == 0)
    throw Error(ErrorKind::input, "no label of the evaluation data counts, so it has no loss; give data with labels");
  Evaluation evaluation;
  evaluation.samples = samples_->dataset().size();
  evaluation.loss = sums.own / static_cast<double>(counted);
  if (classes_ > 0) {
    evaluation.accuracy = classes.accuracy();
    evaluation.f1 = classes.f1();
  }
  evaluation.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evaluation;
}

std::optional<Evaluation> Evaluator::run(Pipeline& pipeline, PreferencePasses& passes,
                                         const std::function<bool()>& stop) const {
  const auto start = std::chrono::steady_clock::now();
  PreferenceTally tally(preference_.value());
  for (std::int64_t step = 1; step <= samples_->sampler().steps_per_epoch(); ++step) {
    if (stop()) return std::nullopt;
    passes.evaluate(pipeline, step, tally);
  }
  Evaluation evaluation;
  evaluation.samples = static_cast<std::int64_t>(tally.rows());
  evaluation.loss = tally.mean_loss();
  evaluation.preference = tally.report();
  evaluation.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return evaluation;
}

}  // namespace pipetrain
