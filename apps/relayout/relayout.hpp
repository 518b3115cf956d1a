// `pipetrain relayout DIR OPTIONS` changes the layout of a live run between two of its steps.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

std::string relayout_help();
// Returns the exit status: 0 where the run has changed. Throws Error.
int run_relayout(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
