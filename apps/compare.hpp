// `pipetrain compare` compares whether two runs trained alike, and how fast each was.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

std::string compare_help();
// Returns 0 if all that both runs did is equal, 1 if not. Throws Error(input).
int run_compare(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
