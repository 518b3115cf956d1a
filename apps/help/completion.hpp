// `pipetrain completion bash|zsh|fish` prints a script that completes commands, options, choices and files in a shell.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "apps/table/option_spec.hpp"

namespace pipetrain {

const OptionRows& completion_option_table();
std::string completion_help();
std::vector<std::string> completed_shells();

// Returns the script for one of completed_shells(). The scripts are made from the tables of options.
std::string completion_script(const std::string& shell);

// Prints the script. Throws Error(input) for another shell.
int run_completion(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
