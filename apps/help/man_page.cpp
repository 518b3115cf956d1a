#include "apps/help/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "apps/help/command_summary.hpp"
#include "apps/options/operands.hpp"
#include "apps/options/option_values.hpp"
#include "apps/options/shared_options.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

// Escapes a text so that troff shows it as it is: no hyphen becomes a dash, and no line begins with a control character.
std::string troff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (escaped.empty() && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string option_entries(const OptionRows& table, bool with_groups) {
  std::string page;
  std::string_view group;
  for (const OptionSpec& row : table) {
    if (with_groups && row.group != group) page += fmt::format(".SS {}\n", troff(row.group));
    group = row.group;
    const std::string value = row.value.empty() ? "" : fmt::format(" \\fI{}\\fR", troff(row.value));
    const std::string usual = row.default_value.empty() ? "" : fmt::format(" [{}]", troff(row.default_value));
    page += fmt::format(".TP\n\\fB\\-\\-{}\\fR{}\n{}{}\n", troff(row.name), value, troff(row.help), usual);
  }
  return page;
}

std::string command_entries() {
  std::string page;
  for (const CommandSummary& command : command_summaries())
    page += fmt::format(".TP\n\\fBpipetrain {}\\fR {}\n{}.\n", troff(command.name),
                        troff(command.operands + (command.operands.empty() ? "" : " ") + "OPTIONS"), troff(command.what));
  return page;
}

// Returns the sections of options of every command but train, whose options have sections of their own, and launch, which takes
// the same ones.
std::string options_of_commands() {
  std::string page;
  for (const CommandSummary& command : command_summaries())
    if (command.name != "train" && command.name != "launch")
      page += fmt::format(".SH OPTIONS OF {}\n{}", in_capitals(troff(command.name)), option_entries(command.options(), false));
  return page;
}

}  // namespace

const OptionRows& man_option_table() {
  static const OptionRows table = page_options();
  return table;
}

std::string man_help() {
  return "pipetrain man\n"
         "Prints the manual page of pipetrain, with all commands and options.\n"
         "\n"
         "  pipetrain man | man -l -\n"
         "\n" +
         format_options(man_option_table());
}

std::string man_page() {
  return fmt::format(
      ".TH PIPETRAIN 1 \"\" \"pipetrain {}\" \"User Commands\"\n"
      ".SH NAME\npipetrain \\- train transformer language models with pipeline parallelism\n"
      ".SH SYNOPSIS\n.B pipetrain\n[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\nEvery pipeline stage is an actor, and a schedule is the protocol that the actors speak. Without a command, "
      "pipetrain trains.\n"
      ".SH COMMANDS\n{}"
      ".SH OPTIONS OF TRAIN AND LAUNCH\n{}{}"
      ".SH ENVIRONMENT\nEvery option can come from the environment (\\fBPIPETRAIN_PP=2\\fR) or from the file of "
      "\\fB\\-\\-config\\fR. The command line wins over the environment, the environment over the file.\n"
      ".SH EXIT STATUS\n0 done; 1 the run failed; 2 the command line, a file or data is wrong; 129, 130 or 143 stopped by "
      "SIGHUP, SIGINT or SIGTERM.\n",
      PIPETRAIN_VERSION, command_entries(), option_entries(find_command_summary("train")->options(), true),
      options_of_commands());
}

int run_man(const std::vector<std::string>& given_arguments, const Environment& environment) {
  std::vector<std::string> arguments = given_arguments, notes;
  const std::vector<std::string> operands = take_operands(man_option_table(), arguments);
  gather_options(man_option_table(), arguments, environment, notes);  // refuses unknown ones
  if (!operands.empty())
    throw Error(ErrorKind::input, fmt::format("man: {}: takes nothing; write pipetrain man", operands.front()));
  fmt::print("{}", man_page());
  return 0;
}

}  // namespace pipetrain
