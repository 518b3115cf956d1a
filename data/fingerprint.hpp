// Tells whether a run that goes on reads the same data as the run before it.
#pragma once

#include <cstdint>

#include "data/dataset.hpp"

namespace pipetrain {

// A number made of the sizes and of Dataset::content(): the same for the same data, whatever its path; another one when a row
// of it was changed, added, removed or moved. Thread-safe, and takes no time.
std::uint64_t data_fingerprint(const Dataset& dataset);

// What checkpoints of format 2 hold: made of the sizes and of the tokens of up to 64 samples spread over the first epoch
// (FNV-1a, 64 bits), so that it detects other data, but not every change. Thread-safe.
std::uint64_t sampled_fingerprint(const Dataset& dataset);

}  // namespace pipetrain
