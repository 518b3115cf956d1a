#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/options/option_values.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

// Returns "ppp" for "--ppp=3", and "p" for "-p".
std::string bare_name(const std::string& argument) {
  const std::size_t begin = argument.find_first_not_of('-');
  if (begin == std::string::npos) return "";
  return argument.substr(begin, argument.find('=') - begin);
}

[[noreturn]] void fail_extra(const OptionRows& table, const std::string& argument) {
  if (argument.size() > 1 && argument.front() == '-')
    fail_unknown_option(table, bare_name(argument), argument.substr(0, argument.find('=')));
  throw Error(
      ErrorKind::input,
      fmt::format("{}: unexpected argument; options begin with --, and a command comes first (pipetrain COMMAND OPTIONS)",
                  argument));
}

// Names with underscores become ours, and a switch takes the on or off that follows it.
std::vector<std::string> normalised(const OptionRows& table, std::vector<std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    if (!argument.starts_with("--")) continue;
    const auto name_end = argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
    std::string dashed(argument.begin(), name_end);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const OptionSpec* spec = find_option(table, dashed.substr(2));
    if (!spec) continue;
    std::copy(dashed.begin(), dashed.end(), argument.begin());
    if (!spec->value.empty() || name_end != argument.end() || i + 1 == arguments.size()) continue;
    if (!word_of_switch(arguments[i + 1])) continue;
    argument += '=' + arguments[i + 1];
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return arguments;
}

// CLI11 would take the next option for the value of one that lacks its own.
void check_values_follow(const OptionRows& table, const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool ends_in_equals = argument.ends_with('=');
    const OptionSpec* spec = argument.starts_with("--") ? find_option(table, bare_name(argument)) : nullptr;
    if (!spec || spec->value.empty() || (argument.find('=') != std::string::npos && !ends_in_equals)) continue;
    if (ends_in_equals || i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))
      throw Error(ErrorKind::input, fmt::format("--{}: needs a value; write --{} {}", spec->name, spec->name, spec->value));
  }
}

// CLI11 takes "[a,b]" for a list. No option begins like this.
constexpr char bracket_mark = '\x01';

void mark_brackets(std::vector<std::string>& arguments) {
  for (std::string& argument : arguments) {
    const std::size_t value = argument.starts_with("--") ? argument.find('=') + 1 : 0;
    if (value < argument.size() && argument[value] == '[') argument.insert(value, 1, bracket_mark);
  }
}

void unmark(std::vector<std::string>& words) {
  for (std::string& word : words)
    if (word.size() > 1 && word[0] == bracket_mark && word[1] == '[') word.erase(0, 1);
}

}  // namespace

RawOptions read_command_line(const OptionRows& table, const std::vector<std::string>& given_arguments) {
  std::vector<std::string> arguments = normalised(table, given_arguments);
  check_values_follow(table, arguments);
  mark_brackets(arguments);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, CLI::Option*> parsed;
  for (const OptionSpec& spec : table) {
    CLI::Option*& option = parsed[spec.name];
    option = spec.value.empty() ? app.add_flag("--" + spec.name) : app.add_option("--" + spec.name)->type_size(1)->expected(1);
    option->multi_option_policy(spec.takes_several() ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
    if (spec.takes_several()) option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 wants them backwards
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::input, fmt::format("the command line: {}; see pipetrain --help", error.what()));
  }
  if (auto extras = app.remaining(); !extras.empty()) {
    unmark(extras);
    fail_extra(table, extras.front());
  }

  RawOptions options;
  for (const OptionSpec& spec : table) {
    std::vector<std::string> given = parsed[spec.name]->results();
    if (given.empty()) continue;
    if (spec.name == "help" || spec.name == "version")  // alone it has been answered
      throw Error(ErrorKind::input, fmt::format("--{}: takes no value; write it alone", spec.name));
    unmark(given);
    RawOption& option = options[spec.name];
    option.words = spec.takes_several() ? given : std::vector{given.back()};
    option.where = "--" + spec.name;
    if (!spec.value.empty() || given.back() != "true") option.where += fmt::format(" {}", fmt::join(option.words, " "));
  }
  return options;
}

}  // namespace pipetrain
