#include "bindings/guest/plan_building.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/error.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/search/auto_schedule.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

schedules::Plan build_any_plan(const std::string& schedule, schedules::ScheduleShape shape) {
  const schedules::ScheduleInfo* info = schedules::find_schedule(schedule);
  if (info != nullptr && shape.chunks == 0) shape.chunks = info->default_chunks;
  if (info != nullptr && shape.stages > 0 && shape.chunks > 0 && shape.microbatches > 0) {
    const auto most = static_cast<double>(info->uses_costs ? schedules::largest_search : schedules::most_plan_work);
    if (double{1} * shape.stages * shape.chunks * shape.microbatches > most)
      throw std::invalid_argument(std::to_string(shape.stages) + " stages of " + std::to_string(shape.chunks) +
                                  " chunks with " + std::to_string(shape.microbatches) +
                                  " microbatches are more than a plan of " + schedule +
                                  " may have here; their product is at most " + std::to_string(static_cast<long>(most)));
  }
  return schedules::build_schedule(schedule, shape);
}

schedules::Plan read_any_plan(const std::string& path) {
  std::error_code ignored;
  std::ifstream text(path, std::ios::binary);
  if (!fs::is_regular_file(path, ignored) || !text)
    throw Error(ErrorKind::input, path + ": no file that can be read; give a plan's");
  const bool is_csv = path.ends_with(".csv");
  schedules::Plan plan = is_csv ? schedules::parse_pytorch_csv(text, path) : schedules::parse_plan(text, path);
  if (is_csv || plan.schedule.empty()) plan.schedule = fs::path(path).stem().string();
  return without_slices(std::move(plan));
}

schedules::Plan without_slices(schedules::Plan plan) {
  if (plan.slices > 1)
    throw Error(ErrorKind::input, "the plan cuts microbatches into " + std::to_string(plan.slices) +
                                      " slices, which is built for pipetrain train only; give one without");
  return plan;
}

bool has_end_of_step(const schedules::Plan& plan) {
  return !plan.stages.empty() && !plan.stages.front().empty() &&
         plan.stages.front().back().kind == schedules::ActionKind::optimizer;
}

schedules::Plan end_plan(const schedules::Plan& compute, const schedules::EndOfStep& end) {
  if (has_end_of_step(compute)) throw Error(ErrorKind::input, "the plan has its end of step already; give one without");
  return schedules::with_end_of_step(compute, end);
}

}  // namespace pipetrain
