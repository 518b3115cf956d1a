// `pipetrain man` prints the manual page, made from the tables of commands and options.
#pragma once

#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "apps/table/option_spec.hpp"

namespace pipetrain {

const OptionRows& man_option_table();
std::string man_help();

// Returns the page in the macros of man(7).
std::string man_page();

int run_man(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace pipetrain
