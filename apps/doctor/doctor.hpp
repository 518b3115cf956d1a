// The doctor command reports the features of this build and this machine, for a person and for a bug report; with
// --measure it also measures speeds for tune; with --model it reports on a model's files instead.
#pragma once

#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/options/train_options.hpp"

namespace pipetrain {

std::string doctor_help();

// `arguments` are those after the command's name. Prints one fact a line to stdout; returns the exit status, 1 if this
// machine cannot train, 2 if something of the model is refused. Throws Error(input) for unknown arguments.
int run_doctor(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
