#include "comm/control/launch_variables.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/error.hpp"

namespace pipetrain::control {

void fail_environment(const std::string& where, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", where, why));
}

const std::string* find_variable(const LaunchVariables& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

std::string given_variable(const LaunchVariables& variables, const char* name) {
  return fmt::format("{}={}", name, variables.at(name));
}

std::optional<int> parse_number(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<int> number_variable(const LaunchVariables& variables, const char* name) {
  const std::string* text = find_variable(variables, name);
  if (!text) return std::nullopt;
  const auto value = parse_number(*text);
  if (!value) fail_environment(given_variable(variables, name), "must be a number of at least 0; the launcher sets it");
  return value;
}

}  // namespace pipetrain::control
