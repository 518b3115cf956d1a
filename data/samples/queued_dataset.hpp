// Samples that the embedding program gives while the run reads them, in the order in which they are trained on.
#pragma once

#include <deque>
#include <mutex>

#include "data/samples/dataset.hpp"

namespace pipetrain {

// A stream without an end: sample i is the one that was pushed i-th, counted from 0. A run that reads it must not shuffle.
// Thread-safe: samples are pushed while others are read.
class QueuedDataset : public Dataset {
 public:
  explicit QueuedDataset(std::int64_t sequence_length) : Dataset(sequence_length) {}

  // Appends the next sample, which has a label for each id. An empty sample fills up a batch: it counts in no loss. Throws
  // Error(input) for a sample longer than the sequence length.
  void push(Sample sample);
  // Frees the samples before this one, and lets the stream begin there if it is ahead of all that were pushed: the samples
  // that a resumed run does not repeat.
  void drop_before(std::int64_t index);

  std::int64_t size() const override { return std::int64_t{1} << 40; }  // more than any run takes
  using Dataset::read;
  // Throws Error(input) for a sample that has not been pushed yet, or that was dropped.
  void read(std::int64_t index, Sample& sample) const override;
  SampleSize measure(std::int64_t index) const override;
  std::uint64_t content() const override { return 0; }  // not known in advance

 private:
  const Sample& at(std::int64_t index) const;  // the mutex is held

  mutable std::mutex mutex_;
  std::deque<Sample> samples_;
  std::int64_t first_ = 0;  // the index of samples_.front()
};

}  // namespace pipetrain
