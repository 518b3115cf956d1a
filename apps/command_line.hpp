// Runs the command that a command line names, and turns its errors into an exit status.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"

namespace pipetrain {

// Runs the command of these arguments (without the program's name) and returns the exit status as documented. Catches
// all exceptions: an error becomes one line on stderr.
int run_command_line(const std::vector<std::string>& arguments, const Environment& environment);

// Returns the PIPETRAIN_ variables of this process.
Environment process_environment();

}  // namespace pipetrain
