#include "apps/option_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "apps/suggest.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace pipetrain {

namespace {

std::string variable_name(const std::string& option) {
  std::string name = "PIPETRAIN_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// An option of some command, or set by those who test or debug pipetrain.
bool known_variable(const std::string& name) {
  if (name == "PIPETRAIN_FAULT" || name.starts_with("PIPETRAIN_TEST_")) return true;
  for (const auto* table : {&train_option_table(), &simulate_option_table(), &tune_option_table(), &doctor_option_table()})
    for (const OptionSpec& spec : *table)
      if (variable_name(spec.name) == name) return true;
  return false;
}

}  // namespace

void fail_unknown_option(const std::vector<OptionSpec>& table, const std::string& name, const std::string& where) {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  if (const auto reason = reserved_option(dashed); !reason.empty())
    throw Error(ErrorKind::input, fmt::format("{}: {}", where, reason));
  if (const auto ours = our_spelling(name)) {
    if (!ours->starts_with("--") && !ours->starts_with("pipetrain"))
      throw Error(ErrorKind::input, fmt::format("{}: unknown option; this is {} here, leave it out", where, *ours));
    throw Error(ErrorKind::input, fmt::format("{}: unknown option; here it is {}", where, *ours));
  }
  if (const auto nearest = nearest_name(name, option_names(table)))
    throw Error(ErrorKind::input, fmt::format("{}: unknown option; did you mean --{}?", where, *nearest));
  throw Error(ErrorKind::input, fmt::format("{}: unknown option; --help lists them all", where));
}

RawOptions read_environment(const std::vector<OptionSpec>& table, const std::map<std::string, std::string>& environment,
                            std::vector<std::string>& notes) {
  RawOptions options;
  for (const OptionSpec& spec : table) {
    const auto variable = environment.find(variable_name(spec.name));
    if (variable == environment.end() || variable->second.empty() || spec.name == "help" || spec.name == "version") continue;
    RawOption& option = options[spec.name];
    option.where = fmt::format("{}={}", variable->first, variable->second);
    if (spec.many) {
      std::istringstream stream(variable->second);
      for (std::string word; stream >> word;) option.words.push_back(word);
    } else {
      option.words = {variable->second};
    }
  }
  for (const auto& [name, value] : environment)
    if (name.starts_with("PIPETRAIN_") && !known_variable(name))
      notes.push_back(fmt::format("the environment variable {} is no option of pipetrain and is passed over", name));
  return options;
}

RawOptions gather_options(const std::vector<OptionSpec>& table, const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment, std::vector<std::string>& notes) {
  RawOptions options = read_command_line(table, arguments);
  options.merge(read_environment(table, environment, notes));  // merge keeps what is there already
  if (const auto config = options.find("config"); config != options.end())
    options.merge(read_config_file(table, config->second.words.back()));
  return options;
}

}  // namespace pipetrain
