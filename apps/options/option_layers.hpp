// The layers from which options come: command line, environment, file. Each gives words by option name; OptionValues decides
// afterwards what they mean.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/options/option_table.hpp"
#include "apps/table/raw_options.hpp"

namespace pipetrain {

class Error;

// All three throw Error(input) on what is no option of the table, with the nearest one, and on a missing value.
RawOptions read_command_line(const OptionRows& table, const std::vector<std::string>& arguments);
// PIPETRAIN_<OPTION>; an empty value counts as not set, several words are separated by spaces. A PIPETRAIN_ name that is no
// option of any command is reported in `notes`; one that is reserved for later throws, as the option does.
RawOptions read_environment(const OptionRows& table, const std::map<std::string, std::string>& environment,
                            std::vector<std::string>& notes);
// Reads a .toml or .json file of at most 512 KiB: one table of options, named with dashes or underscores; values are strings,
// numbers, booleans, or arrays of these for options that take several or have commas between. null, and "auto" for a number,
// are as not given. What a file of DeepSpeed's turns off, such as "fp16": {"enabled": false}, asks for nothing; bf16 off is
// --precision fp32.
RawOptions read_config_file(const OptionRows& table, const std::string& path);

// Command line over environment over the --config file that one of them names.
RawOptions gather_options(const OptionRows& table, const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment, std::vector<std::string>& notes);

// Returns the line to print for an error. For an error about a setting, it begins with the option: "--tp 3: ...".
std::string error_line(const Error& error);

// The place of each option that did not come from the command line, by its name.
using OptionPlaces = std::map<std::string, std::string>;
// Calls `work`; an Error(input) about a setting whose option has a place gets that place before it: what is found wrong later
// knows the setting, but not where it was given.
void placing_errors(const OptionPlaces& places, const std::function<void()>& work);

// Throws the Error for a name that is no option; `where` begins the line, e.g. "--ppp" or "run.toml:3: ppp".
[[noreturn]] void fail_unknown_option(const OptionRows& table, const std::string& name, const std::string& where);

}  // namespace pipetrain
