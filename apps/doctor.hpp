// The doctor command: what this build and this machine have, for a person and for a bug report.
#pragma once

#include <string>
#include <vector>

namespace pipetrain {

// Prints one fact a line to stdout; returns the exit status, 1 when this machine cannot train. Throws Error(input) for
// arguments it does not know.
int run_doctor(const std::vector<std::string>& arguments);

}  // namespace pipetrain
