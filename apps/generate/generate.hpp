#pragma once

#include "apps/generate/generate_options.hpp"

namespace pipetrain {

// Returns the exit status. Throws Error.
int run_generate(const GenerateOptions& options);

}  // namespace pipetrain
