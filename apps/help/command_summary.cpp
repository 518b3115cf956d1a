#include "apps/help/command_summary.hpp"

#include <algorithm>

#include "apps/help/completion.hpp"
#include "apps/help/man_page.hpp"
#include "apps/options/option_table.hpp"

namespace pipetrain {

const std::vector<CommandSummary>& command_summaries() {
  static const std::vector<CommandSummary> all = {
      {"train", "train a model", "", train_option_table},
      {"launch", "start a run of several processes", "[generate | PROGRAM]", train_option_table},
      {"simulate", "run a schedule under a virtual clock", "", simulate_option_table},
      {"tune", "search the fastest layout", "", tune_option_table},
      {"doctor", "report what this machine and a model's folder have", "", doctor_option_table},
      {"watch", "show a run in the terminal", "FILE|DIR", watch_option_table},
      {"compare", "compare two runs", "A B", compare_option_table},
      {"tokenize", "turn text into a file of tokens", "", tokenize_option_table},
      {"generate", "write text with a model", "", generate_option_table},
      {"export", "make a Hugging Face folder out of a checkpoint", "", export_option_table},
      {"replay", "repeat a recorded run", "FILE", replay_option_table},
      {"relayout", "give a live run another layout", "DIR", relayout_option_table},
      {"completion", "print a shell's completion of commands and options", "SHELL", completion_option_table,
       completed_shells()},
      {"man", "print the manual page", "", man_option_table},
  };
  return all;
}

const CommandSummary* find_command_summary(std::string_view name) {
  const auto& all = command_summaries();
  const auto found = std::find_if(all.begin(), all.end(), [&](const CommandSummary& command) { return command.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace pipetrain
