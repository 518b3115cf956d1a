// The samples of each step, and the step's size before any of them is read. A pure function of the step's number: every
// rank of every process computes the same from the same data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

  // Returns samples that join each prompt of a step with the completion of the sample before it in the global batch; the first
  // with the last one's. Completions are cut at the dataset's sequence length. The data must be completions.
  std::shared_ptr<const StepSamples> mismatched() const;

  // Returns every sample once, in order, in batches of the same shape: see once_in_order().
  std::shared_ptr<const StepSamples> in_order() const;

  const Dataset& dataset() const { return *dataset_; }
  const Sampler& sampler() const { return sampler_; }
  const BatchShape& batch() const { return batch_; }

  // The sequence is the longest sample of the global batch, rounded up to a multiple of sequence_step and of the
  // chunks, and at most the dataset's: it does not depend on how ranks share the batch.
  StepSize size(std::int64_t step) const;
  // Returns the size of each sample of the step, in the order of the global batch; without ids where there is no sample.
  std::vector<SampleSize> sizes(std::int64_t step) const;
  static constexpr std::int64_t sequence_step = 64;

  struct Microbatch {
    std::int64_t step = 1;
    int replica = 0, index = 0;
  };
  // Returns the number of the step's samples, or of their documents where the data isolates them; what is padded has one more.
  std::int64_t sequences(std::int64_t step) const;

  // Fills microbatch x sequence ids and labels, sample after sample; a sample is padded with id 0 and labels that do not count.
  void read(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const;

  // Fills microbatch x sequence positions: for each token, the position in its sample of the first token of its
  // document. Padding is a document of its own. The data must isolate documents.
  void read_documents(const Microbatch& which, std::int64_t sequence, std::span<std::int32_t> begins) const;

 private:
  StepSamples(std::shared_ptr<const Dataset> dataset, const BatchShape& batch, const Sampler& sampler, std::int64_t chunks);

  // The indices of samples; with mismatched samples, of a prompt and of a completion.
  struct Chosen {
    std::int64_t sample, completion;
  };
  std::vector<Chosen> chosen(std::int64_t step) const;  // of the global batch
  std::vector<Chosen> chosen(const Microbatch& which) const;
  SampleSize measure(const Chosen& chosen) const;
  void read(const Chosen& chosen, Sample& sample) const;
  // Returns where the sample's documents begin, that of its padding too.
  std::vector<std::int32_t> document_begins(const Chosen& chosen, std::int64_t sequence) const;

  std::shared_ptr<const Dataset> dataset_;
  BatchShape batch_;
  Sampler sampler_;
  bool mismatches_ = false;
  std::int64_t step_;  // sequences are multiples of this, unless they have the dataset's length
};

}  // namespace pipetrain
