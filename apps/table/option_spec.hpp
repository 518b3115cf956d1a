// The options of a command as data: parsing, --help and suggestions all read such a table.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/training/job/setting_reader.hpp"

namespace pipetrain {

struct OptionSpec {
  std::string group;  // heading in --help
  std::string name;   // "seq-len"
  std::string value;  // "N"; empty for a switch that takes none
  std::string help;   // may wrap over lines
  SettingReader reader = AnyText{};
  std::string default_value = {};  // as --help shows it; empty: not set

  bool takes_several() const { return std::holds_alternative<TextList>(reader); }
};

using OptionRows = std::vector<OptionSpec>;

// Returns all these rows in their order. Rows without a value get the names of their choices for it.
OptionRows joined_rows(std::initializer_list<OptionRows> parts);

const OptionSpec* find_option(const OptionRows& table, std::string_view name);
std::vector<std::string> option_names(const OptionRows& table);

// Headings, options and their help in two columns, at most 100 characters wide.
std::string format_options(const OptionRows& table);

}  // namespace pipetrain
