// The options of data to train and to evaluate on.
#pragma once

#include <string>
#include <vector>

#include "actors/training/job/run_settings.hpp"
#include "apps/options/option_values.hpp"

namespace pipetrain {

// All throw Error(input) that names the option.

// --text-keys: empty where it is not given.
std::vector<std::string> read_text_keys(const OptionValues& values);
// The data to train on.
void read_data(const OptionValues& values, RunSettings& run);
// After read_data().
void read_evaluation(const OptionValues& values, RunSettings& run);

}  // namespace pipetrain
