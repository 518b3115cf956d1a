// From the words of the command line to a command, and from its errors to an exit status.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

// Runs what the arguments (without the program's name) ask for and returns the exit status of the contract. Catches
// everything: an error becomes one line on stderr.
int run_command_line(const std::vector<std::string>& arguments, const Environment& environment);

// The PIPETRAIN_ variables of this process.
Environment process_environment();

}  // namespace pipetrain
