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
    : StepSamples(dataset, batch, Sampler(dataset->size(), batch, shuffle, seed), chunks) {}

StepSamples StepSamples::once_in_order(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, std::int64_t chunks) {
  const Sampler sampler = Sampler::once_in_order(dataset->size(), batch);
  return {std::move(dataset), batch, sampler, chunks};
}

SampleSize StepSamples::measure(std::int64_t index) const {
  return index == Sampler::no_sample ? SampleSize{} : dataset_->measure(index);
}

StepSize StepSamples::size(std::int64_t step) const {
  std::int64_t longest = 1, counted = 0;
  for (const std::int64_t index : sampler_.global_batch(step - 1)) {
    const SampleSize size = measure(index);
    longest = std::max(longest, size.ids);
    counted += size.counted;
  }
  const std::int64_t rounded = (longest + step_ - 1) / step_ * step_;
  return {std::min(rounded, dataset_->sequence_length()), counted};
}

void StepSamples::read(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> ids,
                       std::span<std::int32_t> labels) const {
  assert(std::ssize(ids) == batch_.microbatch * sequence && ids.size() == labels.size());
  const auto width = static_cast<std::size_t>(sequence);
  Sample sample;
  std::size_t at = 0;
  for (const std::int64_t index : sampler_.microbatch(which.step - 1, which.replica, which.index)) {
    if (index == Sampler::no_sample) {
      sample = {};
    } else {
      dataset_->read(index, sample);
    }
    assert(sample.ids.size() <= width && sample.labels.size() == sample.ids.size());
    sample.ids.resize(width, 0);
    sample.labels.resize(width, not_counted);
    std::copy(sample.ids.begin(), sample.ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy(sample.labels.begin(), sample.labels.end(), labels.begin() + static_cast<std::ptrdiff_t>(at));
    at += width;
  }
}

void StepSamples::read_documents(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> begins) const {
  assert(std::ssize(begins) == batch_.microbatch * sequence);
  std::size_t at = 0;
  for (const std::int64_t index : sampler_.microbatch(which.step - 1, which.replica, which.index)) {
    std::vector<std::int32_t> documents;
    if (index != Sampler::no_sample) documents = dataset_->documents(index);
    if (documents.empty()) documents.push_back(0);
    const std::int64_t ids = measure(index).ids;
    if (ids < sequence) documents.push_back(static_cast<std::int32_t>(ids));
    documents.push_back(static_cast<std::int32_t>(sequence));
    for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
      const auto length = static_cast<std::size_t>(documents[i + 1] - documents[i]);
      std::fill_n(begins.begin() + static_cast<std::ptrdiff_t>(at), length, documents[i]);
      at += length;
    }
  }
}

}  // namespace pipetrain
