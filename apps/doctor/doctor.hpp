// The doctor command: what this build and this machine have, for a person and for a bug report; with --measure also how fast it
// is, for tune.
#pragma once

#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

std::string doctor_help();

// `arguments` are those after the command's name. Prints one fact a line to stdout; returns the exit status, 1 when this
// machine cannot train. Throws Error(input) for arguments it does not know.
int run_doctor(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
