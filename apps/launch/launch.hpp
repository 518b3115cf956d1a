// `pipetrain launch` starts the processes of a run on this host, alone or together with launches on other hosts.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

// Returns the exit status: that of the first cause, if the run has failed. Throws Error.
int run_launch(const std::vector<std::string>& arguments, const Environment& environment);

std::string launch_help();

}  // namespace pipetrain
