#include "apps/options/option_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "apps/foreign/foreign_names.hpp"
#include "apps/output/launch_report.hpp"
#include "apps/output/stderr_lines.hpp"
#include "comm/control/launch_environment.hpp"
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"

namespace pipetrain {

namespace {

constexpr std::string_view prefix = "PIPETRAIN_";

std::string variable_name(const std::string& option) {
  std::string name(prefix);
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// Returns "seq-len" for "PIPETRAIN_SEQ_LEN".
std::string option_name(const std::string& variable) { return normalised_name(variable.substr(prefix.size())); }

std::initializer_list<const std::vector<OptionSpec>*> all_tables() {
  static const std::initializer_list<const std::vector<OptionSpec>*> tables = {
      &train_option_table(),    &simulate_option_table(), &tune_option_table(),    &tokenize_option_table(),
      &generate_option_table(), &export_option_table(),   &doctor_option_table(),  &compare_option_table(),
      &watch_option_table(),    &replay_option_table(),   &relayout_option_table()};
  return tables;
}

// Returns the hint for an unknown option; `ours` is a result of our_spelling().
std::string here_it_is(const std::string& ours) { return ours.starts_with("--") ? "here it is " + ours : ours; }

// Returns true for the variable of an option of any command, and for one that tests or debuggers of pipetrain set.
bool known_variable(const std::string& name) {
  if (name.starts_with("PIPETRAIN_TEST_")) return true;
  for (const char* other : {"PIPETRAIN_FAULT", "PIPETRAIN_TOKEN", launch_variable, launch_report_variable})
    if (name == other) return true;
  for (const auto* table : all_tables())
    for (const OptionSpec& spec : *table)
      if (variable_name(spec.name) == name) return true;
  return false;
}

// Returns a hint such as "; did you mean PIPETRAIN_PP?", or an empty text. `table` is that of the running command.
std::string variable_hint(const OptionRows& table, const std::string& name) {
  const std::string option = option_name(name);
  if (const auto ours = our_spelling(option)) {
    const bool one_option = ours->starts_with("--") && ours->find(' ') == std::string::npos;
    return one_option ? "; here it is " + variable_name(ours->substr(2)) : "; " + here_it_is(*ours);
  }
  const auto nearest = nearest_name(option, option_names(table));
  return nearest ? fmt::format("; did you mean {}?", variable_name(*nearest)) : "";
}

// A value of spaces would be an unlucky name, or none at all where several words are separated by them. Errors quote what was
// given, but no megabytes of it.
void check_words(RawOptions& options) {
  constexpr std::size_t longest_quote = 200;
  for (auto& [name, option] : options) {
    option.where = shortened(option.where, longest_quote);
    const bool blank = option.words.empty() || std::any_of(option.words.begin(), option.words.end(), [](const auto& word) {
                         return !word.empty() && word.find_first_not_of(" \t\r\n") == std::string::npos;
                       });
    if (blank) throw Error(ErrorKind::input, fmt::format("{}: is blank; give a value or leave it out", option.where));
  }
}

}  // namespace

void fail_unknown_option(const OptionRows& table, const std::string& name, const std::string& where) {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  if (const auto ours = our_spelling(name))
    throw Error(ErrorKind::input, fmt::format("{}: unknown option; {}", where, here_it_is(*ours)));
  const std::string last = dashed.substr(dashed.rfind('.') + 1);  // torchtitan's --training.steps
  if (last != dashed && find_option(table, last))
    throw Error(ErrorKind::input, fmt::format("{}: unknown option; here it is --{}", where, last));
  if (const auto nearest = nearest_name(name, option_names(table)))
    throw Error(ErrorKind::input, fmt::format("{}: unknown option; did you mean --{}?", where, *nearest));
  throw Error(ErrorKind::input, fmt::format("{}: unknown option; --help lists them all", where));
}

RawOptions read_environment(const OptionRows& table, const std::map<std::string, std::string>& environment,
                            std::vector<std::string>& notes) {
  RawOptions options;
  for (const OptionSpec& spec : table) {
    const auto variable = environment.find(variable_name(spec.name));
    if (variable == environment.end() || variable->second.empty() || spec.name == "help" || spec.name == "version") continue;
    RawOption& option = options[spec.name];
    option.where = fmt::format("{}={}", variable->first, variable->second);
    option.place = variable->first;
    if (spec.takes_several()) {
      std::istringstream stream(variable->second);
      for (std::string word; stream >> word;) option.words.push_back(word);
    } else {
      option.words = {variable->second};
    }
  }
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(prefix)) continue;
    if (!known_variable(name))
      notes.push_back(fmt::format("the environment variable {} is no option of pipetrain and is ignored{}", name,
                                  variable_hint(table, name)));
  }
  return options;
}

RawOptions gather_options(const OptionRows& table, const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment, std::vector<std::string>& notes) {
  RawOptions options = read_command_line(table, arguments);
  options.merge(read_environment(table, environment, notes));  // merge keeps what is there already
  check_words(options);
  if (const auto config = options.find("config"); config != options.end()) {
    options.merge(read_config_file(table, config->second.words.back()));
    for (const auto& [name, option] : options)
      if (option.words.empty()) throw Error(ErrorKind::input, option.where);  // see foreign_options()
    check_words(options);
  }
  return options;
}

std::string error_line(const Error& error) { return (error.setting() ? "--" : "") + std::string(error.what()); }

void placing_errors(const OptionPlaces& places, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    const Setting* setting = error.setting();
    if (error.kind() != ErrorKind::input || !setting) throw;
    const auto place = places.find(setting->name);
    if (place == places.end()) throw;
    throw Error(ErrorKind::input, place->second + ": " + error_line(error));
  }
}

}  // namespace pipetrain
