// A dataset gives samples of tokens from any source: open_dataset.hpp opens datasets.
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

  std::int64_t sequence_length() const { return sequence_length_; }  // the most ids of a sample
  virtual std::int64_t size() const = 0;                             // samples in an epoch, at least 1

  // Reuses the memory that `sample` holds. `index` keeps counting over epochs: index / size() is the epoch. Only a
  // weighted mixture reads other samples in a later epoch; all others repeat. Throws Error(input) if a file changed
  // while the run used it.
  virtual void read(std::int64_t index, Sample& sample) const = 0;
  // Returns the sample's ids, followed by its last label: for a stretch of text, all of it.
  std::vector<std::int32_t> read(std::int64_t index) const;
  // Does not read the sample, so it is cheap.
  virtual SampleSize measure(std::int64_t) const { return {sequence_length_, sequence_length_}; }

  // Returns how many consecutive samples belong together and come in the same microbatch: 2 for pairs of completions.
  virtual int samples_per_row() const { return 1; }

  // Returns true if each document of a sample is to be computed as if it were alone; then all samples have `documents`.
  virtual bool isolates_documents() const { return false; }
  // Returns only the sample's documents, without reading its ids if that is cheaper.
  virtual std::vector<std::int32_t> documents(std::int64_t index) const;

  // Returns a checksum of all data in its order, as it was when the data was opened. For more than 64 MiB of .txt files it
  // covers only their sizes and 1,024 blocks of 64 KiB, spread evenly.
  virtual std::uint64_t content() const = 0;

 protected:
  explicit Dataset(std::int64_t sequence_length) : sequence_length_(sequence_length) {}

 private:
  std::int64_t sequence_length_;
};

}  // namespace pipetrain
