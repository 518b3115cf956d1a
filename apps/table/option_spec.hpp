// The options of a command as data: parsing, --help and suggestions all read such a table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

struct OptionSpec {
  std::string group;          // heading in --help
  std::string name;           // "seq-len"
  std::string value;          // "N"; empty for a switch that takes none
  std::string help;           // may wrap over lines
  std::string default_value;  // as --help shows it; empty: not set
  bool many = false;          // takes several values
  bool built = true;          // else giving it is an error that says so, but for its default
};

const OptionSpec* find_option(const std::vector<OptionSpec>& table, std::string_view name);
std::vector<std::string> option_names(const std::vector<OptionSpec>& table);

// Headings, options and their help in two columns, at most 100 characters wide.
std::string format_options(const std::vector<OptionSpec>& table);

}  // namespace pipetrain
