// Rows that the tables of several commands have in common.
#pragma once

#include <string>

#include "apps/table/option_spec.hpp"

namespace pipetrain {

// Texts of another command for an option of training; an empty one leaves training's.
struct Reworded {
  std::string default_value = {};
  std::string help = {};
};

// Returns an option of training as another command takes it, under that heading.
OptionSpec shared_option(const char* group, const char* name, const Reworded& texts = {});

// Returns the options for the files into which simulate and replay draw a timeline. `svg` and `trace` are appended to the help
// of --svg and --trace.
OptionRows timeline_options(const std::string& svg = {}, const std::string& trace = {});
// --help and --version.
OptionRows page_options();
// Returns the options under the heading "General" of every command but train: --config, --help and --version.
OptionRows general_options();

}  // namespace pipetrain
