// The tables of options of all commands.
#pragma once

#include <vector>

#include "apps/table/option_spec.hpp"

namespace pipetrain {

// In the order of --help.
const std::vector<OptionSpec>& train_option_table();
const std::vector<OptionSpec>& simulate_option_table();
const std::vector<OptionSpec>& tune_option_table();
const std::vector<OptionSpec>& tokenize_option_table();
const std::vector<OptionSpec>& generate_option_table();
const std::vector<OptionSpec>& export_option_table();
const std::vector<OptionSpec>& replay_option_table();
const std::vector<OptionSpec>& doctor_option_table();
const std::vector<OptionSpec>& compare_option_table();
const std::vector<OptionSpec>& watch_option_table();

}  // namespace pipetrain
