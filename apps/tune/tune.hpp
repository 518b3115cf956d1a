#pragma once

#include "apps/tune/tune_options.hpp"

namespace pipetrain {

// Searches and prints to stdout. Returns the exit status: 1 if nothing fits the memory. Throws Error.
int run_tune(const TuneOptions& options);

}  // namespace pipetrain
