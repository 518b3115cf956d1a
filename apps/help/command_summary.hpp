// The commands as help, completion and the man page list them.
#pragma once

#include <string>
#include <vector>

#include "apps/table/option_spec.hpp"

namespace pipetrain {

struct CommandSummary {
  std::string name;
  std::string what;                          // a few words in the imperative: "search the fastest layout"
  std::string operands = {};                 // "A B"; empty: the command takes options only
  const OptionRows& (*options)() = nullptr;  // never null
  std::vector<std::string> words = {};       // the operands to choose from, as completion's shells
};

// Returns the commands in the order in which pages list them; train is the first.
const std::vector<CommandSummary>& command_summaries();

// Returns null if no command has this name.
const CommandSummary* find_command_summary(std::string_view name);

}  // namespace pipetrain
