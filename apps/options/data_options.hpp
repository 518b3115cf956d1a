// The options of data to train and to evaluate on.
#pragma once

#include <optional>
#include <string>

#include "actors/training/job/run_settings.hpp"
#include "apps/options/option_values.hpp"

namespace pipetrain {

// All throw Error(input) that names the option.

// Reads --text-keys.
TextKeys read_text_keys(const OptionValues& values);
// Returns the name of a built-in chat template or the path of a file of one; no value if the option is not given.
std::optional<std::string> read_chat_template(const OptionValues& values, const std::string& option);
void read_data(const OptionValues& values, RunSettings& run);
// Call it after read_data().
void read_evaluation(const OptionValues& values, RunSettings& run);

}  // namespace pipetrain
