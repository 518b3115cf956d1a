#include "apps/help/overview.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/help/command_summary.hpp"
#include "apps/help/help_topic.hpp"
#include "apps/options/option_table.hpp"
#include "apps/table/wrapped_text.hpp"

namespace pipetrain {

namespace {

// One command a line in two columns; the first example trains at once, anywhere.
constexpr const char* examples =
    "pipetrain [train] OPTIONS\n"
    "Train a transformer on a pipeline of stage actors. Without options: a tiny Llama on built-in text.\n"
    "\n"
    "  pipetrain --pp 2 --tp 4 --microbatch 1                 train a tiny model on 2 stages of 4 ranks\n"
    "  pipetrain --model DIR --data FILE --pp 2 --save run    train a model of Hugging Face on your text\n"
    "  pipetrain --resume --save run --metrics run.jsonl ...  go on after a crash, and record each step\n"
    "  pipetrain watch run.jsonl                              look at this run in another terminal\n"
    "  pipetrain generate --model run/model --prompt \"A b\"    write text with the trained model\n"
    "  pipetrain simulate --pp 4 --microbatches 8             see where a schedule waits\n";

std::string other_commands() {
  std::vector<std::string> names;
  for (const CommandSummary& command : command_summaries())
    if (command.name != "train") names.push_back(fmt::format("{} ({})", command.name, command.what));
  return wrapped_text(fmt::format("Other commands: {}.", fmt::join(names, ", ")), {.indent = 2, .width = 100});
}

}  // namespace

std::string overview() {
  return fmt::format(
      "{}\n{}\n{}\n\n"
      "`pipetrain help COMMAND` explains a command, `pipetrain --help OPTION` an option, and\n"
      "`pipetrain --help` lists all of them.\n",
      examples,
      wrapped_text(fmt::format("Topics (pipetrain --help memory): {}.", fmt::join(help_topics(), ", ")),
                   {.indent = 2, .width = 100}),
      other_commands());
}

std::string train_help() {
  return overview() + "\n" + format_options(train_option_table()) +
         "\n"
         "Every option can also come from the environment (PIPETRAIN_PP=2) or from the --config file (pp = 2);\n"
         "the command line wins over the environment, the environment over the file, the file over the defaults in [].\n"
         "Results go to stdout, progress and notes to stderr. Exit status: 0 done, 1 the run failed, 2 the command\n"
         "line, a file or data is wrong, 129, 130 or 143 stopped by SIGHUP, SIGINT or SIGTERM: the step is finished, and saved\n"
         "where --save is given; a second signal stops at once, and so does a step in which no action completes for 20 s (or\n"
         "for --stall-timeout) after the first. SIGHUP and SIGINT stay ignored where they are so from the start (nohup).\n"
         "SIGUSR1 prints what each stage waits for.\n"
         "\n"
         "PIPETRAIN_FAULT=rank:step:kind (throw, exit, exit-in-update, stop, hang, nan or oom) makes a rank fail in a step, to see what follows;\n"
         "with kind skip the step leaves the weights as they are, with slow the rank computes slowly from that step on.\n";
}

}  // namespace pipetrain
