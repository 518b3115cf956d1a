#include "apps/help/help_topic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"

namespace pipetrain {

namespace {

struct HelpTopic {
  std::string name;
  std::string page;                       // of docs/
  std::string group = {};                 // all options with this heading, and
  std::vector<std::string> options = {};  // these
};

const std::vector<HelpTopic>& topics() {
  static const std::vector<HelpTopic> all = {
      {"adapters", "adapters.md", "Adapters", {"base-precision"}},
      {"batch", "training.md", "Batch and length", {"seq-len"}},
      {"checkpoints", "training.md", "Checkpoints"},
      {"data", "data.md", "Model and data"},
      {"evaluation", "training.md", "Evaluation"},
      {"experts", "experts.md", "", {"ep", "moe-aux-loss", "moe-aux-scope", "moe-z-loss", "moe-bias-rate", "moe-capacity"}},
      {"failures",
       "failures.md",
       "",
       {"restart", "resume", "save-interval", "elastic", "spares", "stall-timeout", "preempt-signal", "stop-grace"}},
      {"general", "training.md", "General"},
      {"health", "watching.md", "Watch"},
      {"layout", "schedules.md", "Layout"},
      {"memory",
       "memory.md",
       "",
       {"zero", "zero-prefetch", "offload", "optimizer-offload-fraction", "activation-offload-fraction", "offload-to",
        "recompute", "recompute-num-layers", "loss-chunks", "microbatch", "slices", "precision", "base-precision", "memory",
        "offload-bandwidth", "memory-slots", "dry-run"}},
      {"model", "models.md", "Model and data"},
      {"numbers", "precision.md", "Numbers and devices"},
      {"optimizer", "optimizers.md", "Optimizer"},
      {"preferences", "preference-tuning.md", "Preferences"},
      {"processes", "multi-node.md", "Processes"},
      {"reports", "watching.md", "Reports"},
      {"schedules",
       "schedules.md",
       "",
       {"pp", "microbatches", "schedule", "chunks", "cut", "slices", "order", "post-validation", "retune", "costs",
        "plan-out"}},
  };
  return all;
}

OptionRows rows_of(const HelpTopic& topic, const OptionRows& table) {
  OptionRows rows;
  std::copy_if(table.begin(), table.end(), std::back_inserter(rows), [&](const OptionSpec& row) {
    const bool is_named = std::find(topic.options.begin(), topic.options.end(), row.name) != topic.options.end();
    return is_named || (!topic.group.empty() && row.group == topic.group);
  });
  return rows;
}

std::string topic_page(const HelpTopic& topic, const OptionRows& table) {
  const OptionRows rows = rows_of(topic, table);
  if (rows.empty()) return {};
  return fmt::format("{}\nExplained in docs/{}.\n", format_options(rows), topic.page);
}

[[noreturn]] void refuse_word(const CommandSummary& command, std::string_view word) {
  std::vector<std::string> known = option_names(command.options());
  for (const HelpTopic& topic : topics())
    if (!rows_of(topic, command.options()).empty()) known.push_back(topic.name);
  const auto nearest = nearest_name(word, known);
  throw Error(ErrorKind::input,
              fmt::format("--help {}: {} has no such topic or option; {}", word, command.name,
                          nearest ? fmt::format("did you mean {}?", *nearest) : "pipetrain --help lists the topics"));
}

}  // namespace

std::vector<std::string> help_topics() {
  std::vector<std::string> names;
  for (const HelpTopic& topic : topics()) names.push_back(topic.name);
  return names;
}

std::string help_page(const CommandSummary& command, std::string_view topic_or_option) {
  const OptionRows& table = command.options();
  for (const HelpTopic& topic : topics()) {
    if (topic.name != topic_or_option) continue;
    if (std::string page = topic_page(topic, table); !page.empty()) return page;
  }
  std::string_view name = topic_or_option;
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  if (const OptionSpec* option = find_option(table, name)) return format_options({*option});
  refuse_word(command, topic_or_option);
}

}  // namespace pipetrain
