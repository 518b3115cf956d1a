// `pipetrain launch`: a run of several processes on this host, alone or with those of other hosts.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

// Returns the exit status: that of the first cause, where the run has failed. Throws Error.
int run_launch(const std::vector<std::string>& arguments, const Environment& environment);

std::string launch_help();

}  // namespace pipetrain
