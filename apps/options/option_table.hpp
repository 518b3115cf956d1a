// The tables of options of all commands.
#pragma once

#include "apps/table/option_spec.hpp"

namespace pipetrain {

// Returns the rows in the order of --help.
const OptionRows& train_option_table();
const OptionRows& simulate_option_table();
const OptionRows& tune_option_table();
const OptionRows& tokenize_option_table();
const OptionRows& generate_option_table();
const OptionRows& export_option_table();
const OptionRows& replay_option_table();
const OptionRows& doctor_option_table();
const OptionRows& compare_option_table();
const OptionRows& watch_option_table();
const OptionRows& relayout_option_table();

}  // namespace pipetrain
