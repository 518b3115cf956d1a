// Where options come from. Every layer gives words by option name; what they mean is decided in one place afterwards.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/option_table.hpp"

namespace pipetrain {

struct RawOption {
  std::vector<std::string> words;
  std::string where;  // how an error names it: "--pp 0", "PIPETRAIN_PP=0", "run.toml:3: pp = 0"
};
using RawOptions = std::map<std::string, RawOption>;  // by option name; a switch has the word "on" or "off"

// All three throw Error(input) on what is no option of the table, with the nearest one, and on a missing value.
RawOptions read_command_line(const std::vector<OptionSpec>& table, const std::vector<std::string>& arguments);
// PIPETRAIN_<OPTION>; an empty value counts as not set, several words are separated by spaces. A PIPETRAIN_ name that is no
// option is told in `notes`.
RawOptions read_environment(const std::vector<OptionSpec>& table, const std::map<std::string, std::string>& environment,
                            std::vector<std::string>& notes);
// A .toml or .json file: one table of options, named with dashes or underscores; values are strings, numbers, booleans or,
// for options that take several, arrays.
RawOptions read_config_file(const std::vector<OptionSpec>& table, const std::string& path);

// Command line over environment over the --config file that one of them names.
RawOptions gather_options(const std::vector<OptionSpec>& table, const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment, std::vector<std::string>& notes);

// Throws the Error for a name that is no option; `where` begins the line, e.g. "--ppp" or "run.toml:3: ppp".
[[noreturn]] void fail_unknown_option(const std::vector<OptionSpec>& table, const std::string& name, const std::string& where);

}  // namespace pipetrain
