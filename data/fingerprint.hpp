// Tells whether a run that goes on reads the same data as the run before it.
#pragma once

#include <cstdint>

#include "data/dataset.hpp"

namespace pipetrain {

// A number made of the sizes and of the tokens of up to 64 samples spread over the first epoch (FNV-1a, 64 bits): the same for
// the same data, whatever its path; another for data that is longer, shorter, or differs in one of these samples. Thread-safe.
std::uint64_t data_fingerprint(const Dataset& dataset);

}  // namespace pipetrain
