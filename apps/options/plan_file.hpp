// Reads --schedule NAME|FILE, and the options that a plan from a file gives too.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/option_values.hpp"
#include "schedules/builders/builders.hpp"

namespace pipetrain {

struct ChosenSchedule {
  std::string name;  // the plan's where there is a plan, which is called after its file unless it has a name of its own
  std::string file;  // empty: a schedule by name
  std::shared_ptr<const schedules::Plan> plan = nullptr;  // of the file: our text, or PyTorch's CSV if its name ends in .csv
};
// usual: the name if the option is not given; also: names that stand for something else than one schedule. Throws Error(input),
// which names file, line, the action and the rule that it breaks.
ChosenSchedule read_schedule(const OptionValues& values, const std::string& usual, const std::vector<std::string>& also = {});

// Throws Error(input) if the schedule cannot have that many chunks on each stage.
void check_chunks(const OptionValues& values, const schedules::ScheduleInfo& schedule, int chunks);

// Returns the value of an option that a file can give too. The two must agree; without both, returns `otherwise`. `source`:
// "the plan a.txt".
int agreed(const OptionValues& values, const char* name, std::int64_t most, std::optional<int> file, const std::string& source,
           int otherwise);

}  // namespace pipetrain
