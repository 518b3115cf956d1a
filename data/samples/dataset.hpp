// Samples of tokens, wherever they come from: open_dataset.hpp opens them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/samples/sample.hpp"

namespace pipetrain {

// All methods are thread-safe. Files are memory mapped and must not shrink while a dataset reads them.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  std::int64_t sequence_length() const { return sequence_length_; }  // the most ids that a sample has
  virtual std::int64_t size() const = 0;                             // samples in one epoch, at least 1

  // Reuses the memory of what `sample` held. `index` counts on over epochs: index / size() is the epoch. Only a weighted
  // mixture reads other samples in a later epoch; everything else repeats. Throws Error(input) when a file changed under us.
  virtual void read(std::int64_t index, Sample& sample) const = 0;
  // Its ids, and behind them its last label: of a stretch of text all of it.
  std::vector<std::int32_t> read(std::int64_t index) const;
  // Without reading it: cheap.
  virtual SampleSize measure(std::int64_t) const { return {sequence_length_, sequence_length_}; }

  // Whether a sample's documents are to be read as if each were alone; then all samples have `documents`.
  virtual bool isolates_documents() const { return false; }
  // Only those of the sample; without reading its ids where that is cheaper.
  virtual std::vector<std::int32_t> documents(std::int64_t index) const;

  // A checksum of all that can be read, in its order, as it was when the data was opened; of more than 64 MiB of .txt files
  // only their sizes and 1,024 blocks of 64 KiB, spread evenly, count.
  virtual std::uint64_t content() const = 0;

 protected:
  explicit Dataset(std::int64_t sequence_length) : sequence_length_(sequence_length) {}

 private:
  std::int64_t sequence_length_;
};

}  // namespace pipetrain
