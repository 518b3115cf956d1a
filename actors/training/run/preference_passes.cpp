#include "actors/training/run/preference_passes.hpp"

#include <algorithm>
#include <utility>

#include "actors/engine/pipeline.hpp"

namespace pipetrain {

PreferencePasses::PreferencePasses(const TrainJob& job, const StepResults& results, std::shared_ptr<const StepSamples> training,
                                   std::shared_ptr<const StepSamples> evaluation)
    : job_(job),
      formula_(job.config.preference.value()),
      results_(results),
      training_(std::move(training)),
      evaluation_(std::move(evaluation)),
      pieces_(static_cast<int>(job.batch.microbatches) * job.layout.slices) {}

std::vector<SequenceSums> PreferencePasses::run(Pipeline& pipeline, std::int64_t step, const PreferencePass& pass) const {
  StepInfo info{.step = step, .microbatches = pieces_, .kind = schedules::StepKind::evaluation};
  add_to(info, pass);
  std::vector<SequenceSums> sums;
  pipeline.step(info, [&](const std::vector<StageResult>& results) {
    sums = results_.sequence_sums(results, info.kind);
    return Verdict{.apply = false};
  });
  return sums;
}

void PreferencePasses::prepare(Pipeline& pipeline, StepInfo& info) {
  if (job_.preference.precompute_reference && !is_freed_) precompute(pipeline);
  PreferencePass pass{.on_training_data = true, .frees_reference = is_freed_};
  pass.facts = facts(pipeline, info.step, true);
  info.tokens = static_cast<double>(pass.facts.size()) / (formula_.has_pairs() ? 2 : 1);
  add_to(info, pass);
}

void PreferencePasses::evaluate(Pipeline& pipeline, std::int64_t step, PreferenceTally& tally) {
  if (job_.preference.precompute_reference && !is_freed_) precompute(pipeline);
  const std::vector<SequenceFacts> known = facts(pipeline, step, false);
  tally.add(run(pipeline, step, {}), known);
}

std::vector<SequenceFacts> PreferencePasses::facts(Pipeline& pipeline, std::int64_t step, bool on_training_data) {
  const std::vector<SampleSize> sizes = (on_training_data ? training_ : evaluation_)->sizes(step);
  std::vector<SequenceFacts> facts(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    facts[i].tokens = static_cast<double>(sizes[i].counted);
    facts[i].desirable = sizes[i].desirable ? 1 : 0;
  }
  if (formula_.has_reference()) add_reference(pipeline, step, on_training_data, facts);
  if (formula_.loss == PreferenceLoss::kto) add_divergence(pipeline, step, on_training_data, facts);
  if (formula_.loss == PreferenceLoss::orpo) add_likelihood_weight(sizes, facts);
  return facts;
}

void PreferencePasses::add_reference(Pipeline& pipeline, std::int64_t step, bool on_training_data,
                                     std::vector<SequenceFacts>& facts) {
  const StepSamples& samples = on_training_data ? *training_ : *evaluation_;
  std::vector<double>& known = on_training_data ? of_training_ : of_evaluation_;
  const std::vector<std::int64_t> batch = samples.sampler().global_batch(step - 1);
  const std::int64_t size = samples.dataset().size();
  const auto number = [&](std::size_t i) { return static_cast<std::size_t>(batch[i] % size); };
  const bool is_known = !known.empty() && std::all_of(batch.begin(), batch.end(), [&](std::int64_t index) {
    return index == Sampler::no_sample || known[static_cast<std::size_t>(index % size)] <= 0;
  });
  if (is_known) {
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (batch[i] != Sampler::no_sample) facts[i].reference = known[number(i)];
    return;
  }
  const auto sums = run(pipeline, step, {.on_training_data = on_training_data, .by_reference = true});
  if (!on_training_data && known.empty()) known.assign(static_cast<std::size_t>(size), unknown_logp);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    facts[i].reference = -sums[i].completion;
    if (!on_training_data && batch[i] != Sampler::no_sample) known[number(i)] = facts[i].reference;
  }
}

// All completions of the step count, so that the divergence does not depend on microbatches and replicas.
void PreferencePasses::add_divergence(Pipeline& pipeline, std::int64_t step, bool on_training_data,
                                      std::vector<SequenceFacts>& facts) const {
  const auto of_policy = run(pipeline, step, {.on_training_data = on_training_data, .mismatched = true});
  const auto of_reference =
      run(pipeline, step, {.on_training_data = on_training_data, .mismatched = true, .by_reference = true});
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].tokens == 0) continue;
    sum += of_reference[i].completion - of_policy[i].completion;
    ++count;
  }
  for (SequenceFacts& one : facts) one.divergence = std::max(0.0, sum / count);
}

void PreferencePasses::add_likelihood_weight(const std::vector<SampleSize>& sizes, std::vector<SequenceFacts>& facts) const {
  double tokens = 0, pairs = 0;
  for (std::size_t i = 0; i < sizes.size(); i += 2) {
    tokens += static_cast<double>(sizes[i].ids);
    pairs += sizes[i].ids > 0 ? 1 : 0;
  }
  for (std::size_t i = 0; i < facts.size(); i += 2) facts[i].likelihood_weight = pairs / tokens;
}

void PreferencePasses::precompute(Pipeline& pipeline) {
  const auto ordered = training_->in_order();
  of_training_.assign(static_cast<std::size_t>(ordered->dataset().size()), unknown_logp);
  for (std::int64_t step = 1; step <= ordered->sampler().steps_per_epoch(); ++step) {
    const auto sums = run(pipeline, step, {.on_training_data = true, .in_order = true, .by_reference = true});
    const std::vector<std::int64_t> batch = ordered->sampler().global_batch(step - 1);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (batch[i] != Sampler::no_sample) of_training_[static_cast<std::size_t>(batch[i])] = -sums[i].completion;
  }
  if (evaluation_) {
    for (std::int64_t step = 1; step <= evaluation_->sampler().steps_per_epoch(); ++step) {
      std::vector<SequenceFacts> facts(static_cast<std::size_t>(evaluation_->batch().global_batch()));
      add_reference(pipeline, step, false, facts);
    }
  }
  is_freed_ = true;
}

}  // namespace pipetrain
