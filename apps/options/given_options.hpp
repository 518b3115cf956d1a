// The options that a user gave, as text that another person can run again.
#pragma once

#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/table/raw_options.hpp"

namespace pipetrain {

struct GivenOption {
  std::string name;
  std::vector<std::string> words;  // a switch has "true" or "false"
  std::string place;               // "PIPETRAIN_PP", "run.toml:3"; empty: the command line
  bool is_switch = false;
};

// Returns those that differ from their defaults and are of the whole run, in the table's order: neither files of options, which
// are in it already, nor the place of one process.
std::vector<GivenOption> given_options(const OptionRows& table, const RawOptions& options);

// Returns "--pp 4 --data 'my file'" for a shell.
std::string shell_words(const std::vector<GivenOption>& options);

}  // namespace pipetrain
