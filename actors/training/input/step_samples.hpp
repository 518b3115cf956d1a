// The samples of each step, and the step's size before any of them is read. A pure function of the step's number: every
// rank of every process computes the same from the same data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/samples/dataset.hpp"
#include "data/samples/sampler.hpp"

namespace pipetrain {

struct StepSize {
  std::int64_t sequence = 0;  // tokens of each sample in the step, padding included
  std::int64_t counted = 0;   // labels of the global batch that count in the loss
};

// Immutable and thread-safe. Steps count from 1.
class StepSamples {
 public:
  // chunks: the number of equal chunks that each step's sequence must be divisible into; the dataset's is.
  StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, bool shuffle, std::uint64_t seed,
              std::int64_t chunks = 1);
  // For evaluation: every sample once, in order. The last batch is filled up with padding.
  static StepSamples once_in_order(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, std::int64_t chunks = 1);

  const Dataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return sampler_; }
  const BatchShape& batch() const { return batch_; }

  // The sequence is the longest sample of the global batch, rounded up to a multiple of sequence_step and of the
  // chunks, and at most the dataset's: it does not depend on how ranks share the batch.
  StepSize size(std::int64_t step) const;
  static constexpr std::int64_t sequence_step = 64;

  struct Microbatch {
    std::int64_t step = 1;
    int replica = 0, index = 0;
  };
  // Fills microbatch x sequence ids and labels, sample after sample; a sample is padded with id 0 and labels that do not count.
  void read(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const;

  // Fills microbatch x sequence positions: for each token, the position in its sample of the first token of its
  // document. Padding is a document of its own. The data must isolate documents.
  void read_documents(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> begins) const;

 private:
  StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, const Sampler& sampler, std::int64_t chunks);

  SampleSize measure(std::int64_t index) const;

  std::shared_ptr<const Dataset> dataset_;
  BatchShape batch_;
  Sampler sampler_;
  std::int64_t step_;  // sequences are multiples of this, unless they have the dataset's length
};

}  // namespace pipetrain
