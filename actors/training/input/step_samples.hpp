// The samples of each step, and what is known of a step before any of them is read. A pure function of the step's number: every
// rank of every process asks for itself and finds the same, because all have opened the same data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/samples/dataset.hpp"
#include "data/samples/sampler.hpp"

namespace pipetrain {

struct StepSize {
  std::int64_t sequence = 0;  // tokens of each sample in the step, padding included
  std::int64_t counted = 0;   // labels of the global batch that are part of the loss
};

// Immutable and thread-safe. Steps count from 1.
class StepSamples {
 public:
  // chunks: equal ones that each step's sequence must be cut into; the dataset's can be.
  StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, bool shuffle, std::uint64_t seed,
              std::int64_t chunks = 1);
  // For evaluation: every sample once, in order. What the last batch lacks is padding alone.
  static StepSamples once_in_order(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, std::int64_t chunks = 1);

  const Dataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return sampler_; }
  const BatchShape& batch() const { return batch_; }

  // The sequence is that of the longest sample of the global batch, rounded up to a multiple of sequence_step and the
  // chunks, and at most the dataset's: so it does not depend on how the batch is shared out.
  StepSize size(std::int64_t step) const;
  static constexpr std::int64_t sequence_step = 64;

  struct Microbatch {
    std::int64_t step = 1;
    int replica = 0, index = 0;
  };
  // Fills microbatch x sequence ids and labels, sample after sample; behind a sample's own come id 0 and labels that do not
  // count.
  void read(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const;

  // Of data that isolates documents. Fills microbatch x sequence places in samples: for each token, the place of the first one
  // of its document in its own sample. Padding is a document of its own.
  void read_documents(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> begins) const;

 private:
  StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, const Sampler& sampler, std::int64_t chunks);

  SampleSize measure(std::int64_t index) const;

  std::shared_ptr<const Dataset> dataset_;
  BatchShape batch_;
  Sampler sampler_;
  std::int64_t step_;  // what sequences are multiples of, unless they are the dataset's
};

}  // namespace pipetrain
