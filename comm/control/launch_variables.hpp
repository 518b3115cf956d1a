// Reads and checks variables that launchers set in the environment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pipetrain::control {

using LaunchVariables = std::map<std::string, std::string>;

// Throws Error(input).
[[noreturn]] void fail_environment(const std::string& where, const std::string& why);

// Returns null where the variable is not set, or empty.
const std::string* find_variable(const LaunchVariables& variables, const char* name);

// Returns "RANK=1"; the variable must be set.
std::string given_variable(const LaunchVariables& variables, const char* name);

// Returns no value where the text is no number from 0 to the largest int.
std::optional<int> parse_number(std::string_view text);

// Returns no value where the variable is not set. Throws Error(input) where it is no such number.
std::optional<int> number_variable(const LaunchVariables& variables, const char* name);

}  // namespace pipetrain::control
