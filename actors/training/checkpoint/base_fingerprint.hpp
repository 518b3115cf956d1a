// A fingerprint of a model's weights, by which a checkpoint of adapters knows the model that they belong to.
#pragma once

#include <cstdint>

#include "model/weights/weights.hpp"

namespace pipetrain {

// Returns a checksum of the first rows of every tensor: of a few thousand elements each, so that it takes little time for large
// models. Throws what the source throws.
std::uint64_t base_fingerprint(const ModelConfig& config, const WeightSource& weights);

}  // namespace pipetrain
