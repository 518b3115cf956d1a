#include "actors/training/input/step_samples.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace pipetrain {

StepSamples::StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, const Sampler& sampler,
                         std::int64_t chunks)
    : dataset_(std::move(dataset)), batch_(batch), sampler_(sampler), step_(std::lcm(sequence_step, chunks)) {
  assert(dataset_->sequence_length() % chunks == 0);
}

StepSamples::StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, bool shuffle, std::uint64_t seed,
                         std::int64_t chunks)
    : StepSamples(dataset, batch, Sampler(dataset->size(), batch, shuffle, seed, dataset->samples_per_row()), chunks) {}

StepSamples StepSamples::once_in_order(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, std::int64_t chunks) {
  const Sampler sampler = Sampler::once_in_order(dataset->size(), batch);
  return {std::move(dataset), batch, sampler, chunks};
}

std::shared_ptr<const StepSamples> StepSamples::mismatched() const {
  auto samples = std::make_shared<StepSamples>(*this);
  samples->mismatches_ = true;
  return samples;
}

std::shared_ptr<const StepSamples> StepSamples::in_order() const {
  auto samples = std::make_shared<StepSamples>(*this);
  samples->sampler_ = Sampler::once_in_order(dataset_->size(), batch_);
  return samples;
}

// Samples without a place in the data come last.
std::vector<StepSamples::Chosen> StepSamples::chosen(std::int64_t step) const {
  const std::vector<std::int64_t> batch = sampler_.global_batch(step - 1);
  const std::size_t there = static_cast<std::size_t>(std::find(batch.begin(), batch.end(), Sampler::no_sample) - batch.begin());
  std::vector<Chosen> all;
  for (std::size_t i = 0; i < batch.size(); ++i)
    all.push_back({batch[i], mismatches_ && i < there ? batch[(i + there - 1) % there] : batch[i]});
  return all;
}

std::vector<StepSamples::Chosen> StepSamples::chosen(const Microbatch& which) const {
  if (!mismatches_) {
    std::vector<Chosen> own;
    for (const std::int64_t index : sampler_.microbatch(which.step - 1, which.replica, which.index))
      own.push_back({index, index});
    return own;
  }
  const std::vector<Chosen> all = chosen(which.step);
  const std::int64_t first = (which.replica * batch_.microbatches + which.index) * batch_.microbatch;
  return {all.begin() + first, all.begin() + first + batch_.microbatch};
}

SampleSize StepSamples::measure(const Chosen& chosen) const {
  if (chosen.sample == Sampler::no_sample) return {};
  SampleSize size = dataset_->measure(chosen.sample);
  if (!mismatches_) return size;
  const SampleSize other = dataset_->measure(chosen.completion);
  size.ids = std::min(size.prompt + other.ids - other.prompt, dataset_->sequence_length());
  size.counted = size.ids - std::max<std::int64_t>(size.prompt - 1, 0);
  return size;
}

void StepSamples::read(const Chosen& chosen, Sample& sample) const {
  if (chosen.sample == Sampler::no_sample) {
    sample = {};
    return;
  }
  dataset_->read(chosen.sample, sample);
  if (!mismatches_) return;
  const std::int64_t prompt = dataset_->measure(chosen.sample).prompt, begin = dataset_->measure(chosen.completion).prompt;
  const std::vector<std::int32_t> other = dataset_->read(chosen.completion);
  std::vector<std::int32_t> tokens(sample.ids.begin(), sample.ids.begin() + prompt);
  tokens.insert(tokens.end(), other.begin() + begin, other.end());
  tokens.resize(static_cast<std::size_t>(measure(chosen).ids) + 1);
  sample.ids.assign(tokens.begin(), tokens.end() - 1);
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  for (std::int64_t label = 0; label + 1 < prompt; ++label) sample.labels[static_cast<std::size_t>(label)] = not_counted;
}

StepSize StepSamples::size(std::int64_t step) const {
  std::int64_t longest = 1, counted = 0;
  for (const Chosen& one : chosen(step)) {
    const SampleSize size = measure(one);
    longest = std::max(longest, size.ids);
    counted += size.counted;
  }
  const std::int64_t rounded = (longest + step_ - 1) / step_ * step_;
  return {std::min(rounded, dataset_->sequence_length()), counted};
}

std::vector<SampleSize> StepSamples::sizes(std::int64_t step) const {
  std::vector<SampleSize> sizes;
  for (const Chosen& one : chosen(step)) sizes.push_back(measure(one));
  return sizes;
}

void StepSamples::read(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> ids,
                       std::span<std::int32_t> labels) const {
  assert(std::ssize(ids) == batch_.microbatch * sequence && ids.size() == labels.size());
  const auto width = static_cast<std::size_t>(sequence);
  Sample sample;
  std::size_t at = 0;
  for (const Chosen& one : chosen(which)) {
    read(one, sample);
    assert(sample.ids.size() <= width && sample.labels.size() == sample.ids.size());
    sample.ids.resize(width, 0);
    sample.labels.resize(width, not_counted);
    std::copy(sample.ids.begin(), sample.ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy(sample.labels.begin(), sample.labels.end(), labels.begin() + static_cast<std::ptrdiff_t>(at));
    at += width;
  }
}

std::vector<std::int32_t> StepSamples::document_begins(const Chosen& chosen, std::int64_t sequence) const {
  std::vector<std::int32_t> documents;
  if (chosen.sample != Sampler::no_sample) documents = dataset_->documents(chosen.sample);
  if (documents.empty()) documents.push_back(0);
  const std::int64_t ids = measure(chosen).ids;
  if (ids < sequence) documents.push_back(static_cast<std::int32_t>(ids));
  return documents;
}

std::int64_t StepSamples::sequences(std::int64_t step) const {
  const std::vector<Chosen> samples = chosen(step);
  if (!dataset_->isolates_documents()) return std::ssize(samples);
  const std::int64_t sequence = size(step).sequence;
  std::int64_t documents = 0;
  for (const Chosen& one : samples) documents += std::ssize(document_begins(one, sequence));
  return documents;
}

void StepSamples::read_documents(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> begins) const {
  assert(std::ssize(begins) == batch_.microbatch * sequence);
  std::size_t at = 0;
  for (const std::int64_t index : sampler_.microbatch(which.step - 1, which.replica, which.index)) {
    std::vector<std::int32_t> documents = document_begins({index, index}, sequence);
    documents.push_back(static_cast<std::int32_t>(sequence));
    for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
      const auto length = static_cast<std::size_t>(documents[i + 1] - documents[i]);
      std::fill_n(begins.begin() + static_cast<std::ptrdiff_t>(at), length, documents[i]);
      at += length;
    }
  }
}

}  // namespace pipetrain
