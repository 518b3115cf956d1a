// Help on one subject: the options that belong together, and the page of docs/ that explains them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/help/command_summary.hpp"

namespace pipetrain {

// Returns the names of all topics, sorted.
std::vector<std::string> help_topics();

// Returns the options of `command` that belong to a topic ("memory"), or the one with this name ("zero", "--zero").
// Throws Error(input) for a word that is neither, with the nearest name.
std::string help_page(const CommandSummary& command, std::string_view topic_or_option);

}  // namespace pipetrain
