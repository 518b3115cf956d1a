#include "data/samples/queued_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {

void QueuedDataset::push(Sample sample) {
  assert(sample.ids.size() == sample.labels.size());
  if (std::ssize(sample.ids) > sequence_length())
    throw Error(ErrorKind::input, {"seq-len", std::to_string(sequence_length())},
                fmt::format("a sample reads {} tokens; give a sequence length of at least that", sample.ids.size()));
  const std::scoped_lock lock(mutex_);
  samples_.push_back(std::move(sample));
}

void QueuedDataset::drop_before(std::int64_t index) {
  const std::scoped_lock lock(mutex_);
  const auto dropped = std::clamp<std::int64_t>(index - first_, 0, std::ssize(samples_));
  samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(dropped));
  first_ = samples_.empty() ? std::max(first_ + dropped, index) : first_ + dropped;
}

void QueuedDataset::read(std::int64_t index, Sample& sample) const {
  const std::scoped_lock lock(mutex_);
  sample = at(index);
}

SampleSize QueuedDataset::measure(std::int64_t index) const {
  const std::scoped_lock lock(mutex_);
  const Sample& sample = at(index);
  return {std::ssize(sample.ids),
          std::count_if(sample.labels.begin(), sample.labels.end(), [](std::int32_t label) { return label >= 0; })};
}

const Sample& QueuedDataset::at(std::int64_t index) const {
  if (index < first_ || index >= first_ + std::ssize(samples_))
    throw Error(ErrorKind::input, fmt::format("sample {} is not in the queue, which has those from {} to {}; push the samples "
                                              "of a step before it",
                                              index, first_, first_ + std::ssize(samples_) - 1));
  return samples_[static_cast<std::size_t>(index - first_)];
}

}  // namespace pipetrain
