// Plans from files, for every command that takes --schedule NAME|FILE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_values.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

// Returns the names of all schedules that have a builder.
std::vector<std::string> schedule_names();

// Returns true if --schedule names a file: it ends in .txt or .csv, or is the path of a file.
bool names_plan_file(const std::string& schedule);

// Our text, or PyTorch's CSV where the name ends in .csv. A plan without a name of its own is called after its file. Throws
// Error(input): file, line, the action and the rule it breaks.
schedules::Plan read_plan_file(const std::string& path);

// Returns the value of an option that a file can give too. The two must agree; without both, returns `otherwise`. `source`:
// "the plan a.txt".
int agreed(const OptionValues& values, const char* name, std::int64_t most, std::optional<int> file, const std::string& source,
           int otherwise);

// Ends in exit status 2 for a --schedule that is neither a name of `known` nor a file.
[[noreturn]] void fail_unknown_schedule(const OptionValues& values, const std::string& name,
                                        const std::vector<std::string>& known);

}  // namespace pipetrain
