// `pipetrain compare`: whether two runs trained the same, and how fast each was.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

std::string compare_help();
// 0 when all that both runs did is equal, 1 when it is not. Throws Error(input).
int run_compare(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
