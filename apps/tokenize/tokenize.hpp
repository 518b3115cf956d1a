#pragma once

#include "apps/tokenize/tokenize_options.hpp"

namespace pipetrain {

// Writes the file, whole or not at all, and prints to stdout. Returns the exit status. Throws Error.
int run_tokenize(const TokenizeOptions& options);

}  // namespace pipetrain
