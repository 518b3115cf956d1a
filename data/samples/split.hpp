// Divides data between training and evaluation.
#pragma once

#include <cstdint>
#include <memory>

#include "data/samples/dataset.hpp"

namespace pipetrain {

struct DataSplit {
  std::shared_ptr<const Dataset> training, evaluation;
};

// Draws `share` (above 0, below 1) of the samples for evaluation, at least one and not all: a pure function of size,
// share and seed. Both parts keep the order of the whole. Uses 8 bytes of memory for each evaluation sample. Throws
// Error(input) about the setting "split" if there are fewer than two samples. Samples that belong together are drawn together.
DataSplit split_dataset(std::shared_ptr<const Dataset> whole, double share, std::uint64_t seed);

}  // namespace pipetrain
