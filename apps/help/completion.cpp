#include "apps/help/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "apps/help/command_summary.hpp"
#include "apps/options/operands.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

// The words that may follow an option: its choices, or files of any name.
struct CompletedValue {
  std::vector<std::string> words;
  bool is_file = false;
};

// Returns the choices of a value "0|1|2|3"; none where a part is in capitals, which means any word.
std::vector<std::string> choices_in(const std::string& value) {
  if (value.find('|') == std::string::npos ||
      std::any_of(value.begin(), value.end(), [](unsigned char c) { return std::isupper(c); }))
    return {};
  std::vector<std::string> choices;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find('|', begin), value.size());
    choices.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

CompletedValue completed_value(const OptionSpec& row) {
  if (std::holds_alternative<OnOff>(row.reader)) return {{"on", "off"}};
  if (auto choices = choices_in(row.value); !choices.empty()) return {std::move(choices)};
  for (const char* kind : {"FILE", "DIR", "PATH"})
    if (row.value.find(kind) != std::string::npos) return {{}, true};
  return {};
}

bool takes_file(const CommandSummary& command) {
  return command.operands.find("FILE") != std::string::npos || command.operands.find("DIR") != std::string::npos ||
         command.name == "compare";
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandSummary& command : command_summaries()) names.push_back(command.name);
  return names;
}

// Returns the patterns of a case of bash, "train:--data|launch:--data", for the options of all commands that `fits` accepts.
std::string bash_patterns(const std::function<bool(const OptionSpec&)>& fits) {
  std::vector<std::string> patterns;
  for (const CommandSummary& command : command_summaries())
    for (const OptionSpec& row : command.options())
      if (!row.value.empty() && fits(row)) patterns.push_back(fmt::format("{}:--{}", command.name, row.name));
  return fmt::format("{}", fmt::join(patterns, "|"));
}

std::string bash_script() {
  std::string choices, options;
  for (const CommandSummary& command : command_summaries()) {
    std::vector<std::string> names;
    for (const OptionSpec& row : command.options()) {
      names.push_back("--" + row.name);
      const CompletedValue value = completed_value(row);
      if (!row.value.empty() && !value.words.empty())
        choices += fmt::format("    {}:--{}) words='{}' ;;\n", command.name, row.name, fmt::join(value.words, " "));
    }
    options += fmt::format("    {}) words='{}{}{}' files={} ;;\n", command.name, fmt::join(command.words, " "),
                           command.words.empty() ? "" : " ", fmt::join(names, " "), takes_file(command) ? "-f" : "");
  }
  const std::string files = bash_patterns([](const OptionSpec& row) { return completed_value(row).is_file; });
  const std::string others = bash_patterns([](const OptionSpec& row) {
    const CompletedValue value = completed_value(row);
    return !value.is_file && value.words.empty();
  });
  return fmt::format(R"(# Completes pipetrain in bash: source <(pipetrain completion bash)
_pipetrain() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=train words= files= name
  if ((COMP_CWORD > 1)); then
    for name in {0}; do
      if [[ ${{COMP_WORDS[1]}} == "$name" ]]; then command=$name; fi
    done
  fi
  case $command:$before in
{1}    {2}) files=-f ;;
    {3}) ;;
    *) case $command in
{4}    esac
    if ((COMP_CWORD == 1)); then words="{0} $words"; fi ;;
  esac
  mapfile -t COMPREPLY < <(compgen $files -W "$words" -- "$word")
}}
complete -o filenames -F _pipetrain pipetrain
)",
                     fmt::join(command_names(), " "), choices, files, others, options);
}

// Escapes a text for a specification between single quotes of zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return escaped;
}

std::string zsh_option(const OptionSpec& row) {
  const CompletedValue value = completed_value(row);
  std::string follows;
  if (!row.value.empty()) {
    const std::string action = value.is_file         ? "_files"
                               : value.words.empty() ? " "
                                                     : fmt::format("({})", fmt::join(value.words, " "));
    follows = fmt::format(":{}:{}", zsh_text(row.value), action);
  }
  return fmt::format("      '{}--{}[{}]{}'", row.takes_several() ? "*" : "", row.name, zsh_text(row.help), follows);
}

std::string zsh_script() {
  std::string cases, described;
  for (const CommandSummary& command : command_summaries()) {
    std::vector<std::string> rows;
    for (const OptionSpec& row : command.options()) rows.push_back(zsh_option(row));
    if (!command.words.empty()) rows.push_back(fmt::format("      '1: :({})'", fmt::join(command.words, " ")));
    if (takes_file(command)) rows.push_back("      '*: :_files'");
    cases += fmt::format("    {}) _arguments \\\n{} ;;\n", command.name, fmt::join(rows, " \\\n"));
    described += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.what));
  }
  return fmt::format(R"(#compdef pipetrain
# Completes pipetrain in zsh: pipetrain completion zsh > ~/.zfunc/_pipetrain, where ~/.zfunc is in fpath
_pipetrain() {{
  local command=train
  local -a commands
  commands=(
{})
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if [[ $words[2] != -* ]]; then
    command=$words[2]
    shift words
    ((CURRENT--))
  fi
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _pipetrain ]]; then _pipetrain "$@"; else compdef _pipetrain pipetrain; fi
)",
                     described, cases);
}

std::string fish_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string fish_option(const std::string& condition, const OptionSpec& row) {
  const CompletedValue value = completed_value(row);
  std::string kind;
  if (!row.value.empty())
    kind = value.is_file ? " -r -F" : value.words.empty() ? " -x" : fmt::format(" -x -a '{}'", fmt::join(value.words, " "));
  return fmt::format("complete -c pipetrain -n '{}' -l {}{} -d '{}'\n", condition, row.name, kind, fish_text(row.help));
}

std::string fish_script() {
  std::vector<std::string> others = command_names();
  others.erase(others.begin());
  std::string script =
      "# Completes pipetrain in fish: pipetrain completion fish > ~/.config/fish/completions/pipetrain.fish\n"
      "complete -c pipetrain -f\n";
  for (const CommandSummary& command : command_summaries()) {
    const std::string condition = command.name == "train"
                                      ? fmt::format("not __fish_seen_subcommand_from {}", fmt::join(others, " "))
                                      : "__fish_seen_subcommand_from " + command.name;
    script +=
        fmt::format("complete -c pipetrain -n __fish_use_subcommand -a {} -d '{}'\n", command.name, fish_text(command.what));
    for (const std::string& word : command.words)
      script += fmt::format("complete -c pipetrain -n '{}' -a {}\n", condition, word);
    if (takes_file(command)) script += fmt::format("complete -c pipetrain -n '{}' -F\n", condition);
    for (const OptionSpec& row : command.options()) script += fish_option(condition, row);
  }
  return script;
}

struct Shell {
  const char* name;
  std::string (*script)();
};

constexpr std::array shells = {Shell{"bash", bash_script}, Shell{"zsh", zsh_script}, Shell{"fish", fish_script}};

}  // namespace

const OptionRows& completion_option_table() {
  static const OptionRows table = page_options();
  return table;
}

std::vector<std::string> completed_shells() {
  std::vector<std::string> names;
  for (const Shell& shell : shells) names.emplace_back(shell.name);
  return names;
}

std::string completion_script(const std::string& shell) {
  for (const Shell& known : shells)
    if (shell == known.name) return known.script();
  throw Error(ErrorKind::input, fmt::format("completion: {}: unknown shell; write pipetrain completion {}", shell,
                                            fmt::join(completed_shells(), "|")));
}

std::string completion_help() {
  return "pipetrain completion bash|zsh|fish\n"
         "Prints a script for the shell that completes commands, options, their choices and files.\n"
         "\n"
         "  source <(pipetrain completion bash)\n"
         "  pipetrain completion zsh > ~/.zfunc/_pipetrain\n"
         "  pipetrain completion fish > ~/.config/fish/completions/pipetrain.fish\n"
         "\n" +
         format_options(completion_option_table());
}

int run_completion(const std::vector<std::string>& given_arguments, const Environment& environment) {
  std::vector<std::string> arguments = given_arguments, notes;
  const std::vector<std::string> operands = take_operands(completion_option_table(), arguments);
  gather_options(completion_option_table(), arguments, environment, notes);  // refuses unknown ones
  if (operands.size() != 1)
    throw Error(ErrorKind::input,
                fmt::format("completion: takes one shell; write pipetrain completion {}", fmt::join(completed_shells(), "|")));
  fmt::print("{}", completion_script(operands.front()));
  return 0;
}

}  // namespace pipetrain
