// Several datasets as one. Internal to data/.
#pragma once

#include "data/dataset.hpp"

namespace pipetrain {

// One after the other. All have the same sequence length; at least one.
std::unique_ptr<Dataset> concatenate(std::vector<std::unique_ptr<Dataset>> parts);

// As many samples an epoch as the parts together. The part of a sample is drawn by a counter-based generator with the weights
// as odds; within a part samples come in turn (in an order of each pass's own with `shuffle`), so that none comes twice before
// all came once, over epochs too.
std::unique_ptr<Dataset> mix(std::vector<std::unique_ptr<Dataset>> parts, const std::vector<double>& weights, bool shuffle,
                             std::uint64_t seed);

}  // namespace pipetrain
