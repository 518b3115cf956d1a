// Combines several datasets. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/samples/dataset.hpp"

namespace pipetrain {

// Joins the parts in order. There must be at least one, and all must have the same sequence length.
std::unique_ptr<Dataset> concatenate(std::vector<std::unique_ptr<Dataset>> parts);

// An epoch has as many samples as the parts together. A counter-based generator draws the part of each sample, with the
// weights as odds. A part's samples are taken in order (with `shuffle`, in a new order in each pass), so that each is
// read once before any is read again, across epochs too.
std::unique_ptr<Dataset> mix(std::vector<std::unique_ptr<Dataset>> parts, const std::vector<double>& weights, bool shuffle,
                             std::uint64_t seed);

}  // namespace pipetrain
