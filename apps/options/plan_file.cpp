#include "apps/options/plan_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/foreign/foreign_names.hpp"
#include "apps/options/option_files.hpp"
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "files/file_io.hpp"
#include "schedules/plan/plan_text.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

namespace {

schedules::Plan read_plan_file(const std::string& path) {
  const InputFile file(path);  // says why when it is none that can be read
  std::ifstream text(path, std::ios::binary);
  const bool is_csv = path.ends_with(".csv");
  try {
    schedules::Plan plan = is_csv ? schedules::parse_pytorch_csv(text, path) : schedules::parse_plan(text, path);
    if (is_csv || plan.schedule.empty()) plan.schedule = fs::path(path).stem().string();
    return plan;
  } catch (const schedules::PlanFileError& error) {
    throw Error(ErrorKind::input, error.what());
  }
}

[[noreturn]] void fail_unknown_schedule(const OptionValues& values, const std::string& name,
                                        const std::vector<std::string>& also) {
  if (const auto ours = our_schedule(name)) values.fail("schedule", fmt::format("unknown schedule; here it is {}", *ours));
  std::vector<std::string> known;
  for (const auto& info : schedules::all_schedules()) known.emplace_back(info.name);
  known.insert(known.end(), also.begin(), also.end());
  const auto nearest = nearest_name(name, known);
  values.fail("schedule",
              nearest ? fmt::format("unknown schedule; did you mean {}?", *nearest)
                      : fmt::format("unknown schedule; use one of {}, or a plan file (.txt, .csv)", fmt::join(known, ", ")));
}

// Returns true if --schedule names a file: it ends in .txt or .csv, or is the path of a file.
bool names_plan_file(const std::string& schedule) {
  std::error_code ignored;
  return schedule.ends_with(".txt") || schedule.ends_with(".csv") || fs::is_regular_file(schedule, ignored);
}

}  // namespace

ChosenSchedule read_schedule(const OptionValues& values, const std::string& usual, const std::vector<std::string>& also) {
  const std::string name = values.text("schedule").value_or(usual);
  if (schedules::find_schedule(name) || std::find(also.begin(), also.end(), name) != also.end()) return {name, ""};
  if (!names_plan_file(name)) fail_unknown_schedule(values, name, also);
  check_input_file(values, "schedule");
  auto plan = std::make_shared<const schedules::Plan>(read_plan_file(name));
  return {plan->schedule, name, plan};
}

void check_chunks(const OptionValues& values, const schedules::ScheduleInfo& schedule, int chunks) {
  if (chunks != schedule.default_chunks && !schedule.chunks_can_vary)
    values.fail("chunks", fmt::format("the schedule {} has {} {} on each stage; leave it out", schedule.name,
                                      schedule.default_chunks, schedule.default_chunks == 1 ? "chunk" : "chunks"));
}

int agreed(const OptionValues& values, const char* name, std::int64_t most, std::optional<int> file, const std::string& source,
           int otherwise) {
  const auto given = values.integer(name, {1, most});
  if (given && file && *given != *file)
    values.fail(name, fmt::format("{} has {} {}; give the same or leave it out", source, name, *file));
  return given ? static_cast<int>(*given) : file.value_or(otherwise);
}

}  // namespace pipetrain
