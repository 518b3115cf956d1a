// Fingerprints of data, which show whether a resumed run reads the same data as the run before it.
#pragma once

#include <cstdint>

#include "data/samples/dataset.hpp"

namespace pipetrain {

// Returns a hash of the sizes and of Dataset::content(). It does not depend on paths, and changes if a row is changed, added,
// removed or moved. Thread-safe; takes no time.
std::uint64_t data_fingerprint(const Dataset& dataset);

// Returns the fingerprint in checkpoints of format 2: a hash (FNV-1a, 64 bits) of the sizes and of up to 64 samples spread over
// the first epoch. It detects other data, but not every change. Thread-safe.
std::uint64_t sampled_fingerprint(const Dataset& dataset);

}  // namespace pipetrain
