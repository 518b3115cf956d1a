#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/option_layers.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

// "--ppp=3" -> "ppp", "-p" -> "p"
std::string bare_name(const std::string& argument) {
  const std::size_t begin = argument.find_first_not_of('-');
  if (begin == std::string::npos) return "";
  return argument.substr(begin, argument.find('=') - begin);
}

[[noreturn]] void fail_extra(const std::vector<OptionSpec>& table, const std::string& argument) {
  if (argument.size() > 1 && argument.front() == '-')
    fail_unknown_option(table, bare_name(argument), argument.substr(0, argument.find('=')));
  throw Error(ErrorKind::input, fmt::format("{}: unexpected argument; options begin with --, and a command comes first "
                                            "(pipetrain COMMAND OPTIONS)",
                                            argument));
}

// CLI11 reports "--pp: 1 required TEXT missing".
[[noreturn]] void fail_mismatch(const std::vector<OptionSpec>& table, const std::string& message) {
  const std::string name = bare_name(message.substr(0, message.find(':')));
  const OptionSpec* spec = find_option(table, name);
  if (spec && spec->value.empty()) throw Error(ErrorKind::input, fmt::format("--{}: takes no value", name));
  throw Error(ErrorKind::input, fmt::format("--{}: needs a value; write --{} {}", name, name, spec ? spec->value : "VALUE"));
}

}  // namespace

RawOptions read_command_line(const std::vector<OptionSpec>& table, const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::map<std::string, std::vector<std::string>> words;
  for (const OptionSpec& spec : table) {
    std::vector<std::string>& target = words[spec.name];
    if (spec.value.empty()) {
      app.add_flag("--" + spec.name, target)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      CLI::Option* option = app.add_option("--" + spec.name, target);
      if (spec.many)
        option->expected(1, CLI::detail::expected_max_vector_size);
      else
        option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 wants them backwards
  } catch (const CLI::ArgumentMismatch& mismatch) {
    fail_mismatch(table, mismatch.what());
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::input, fmt::format("the command line: {}; see pipetrain --help", error.what()));
  }
  if (const auto extras = app.remaining(); !extras.empty()) fail_extra(table, extras.front());

  RawOptions options;
  for (auto& [name, given] : words) {
    if (given.empty()) continue;
    RawOption& option = options[name];
    option.where = fmt::format("--{}", name);
    if (!find_option(table, name)->value.empty())
      for (const std::string& word : given) option.where += " " + word;
    option.words = std::move(given);
  }
  return options;
}

}  // namespace pipetrain
