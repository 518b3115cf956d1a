#include "schedules/builders/builders.hpp"

#include <stdexcept>

namespace pipetrain::schedules {

namespace {

std::string all_names() {
  std::string names;
  for (const ScheduleInfo& info : all_schedules()) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

void check_at_least_one(std::string_view what, int value) {
  if (value < 1) throw std::invalid_argument(std::string(what) + " must be at least 1, not " + std::to_string(value));
}

}  // namespace

const std::vector<ScheduleInfo>& all_schedules() {
  static const std::vector<ScheduleInfo> all = {
      {"gpipe", 1, false, true, false, build_gpipe},
      {"1f1b", 1, false, true, false, build_1f1b, true},
      {"interleaved", 2, true, true, false, build_interleaved, true},
      {"looped-bfs", 2, true, true, false, build_looped_bfs},
      {"zb-h1", 1, false, true, false, build_zb_h1},
      {"zb-h2", 1, false, true, false, build_zb_h2},
      {"zb-v", 2, false, true, false, build_zb_v},
      {"v-half", 2, false, false, false, build_v_half},
      {"v-min", 2, false, false, false, build_v_min},
      {"dualpipe-v", 2, false, true, false, build_dualpipe_v},
      {"braided-v", 2, false, false, false, build_braided_v, false, true},
      {"auto", 1, false, true, true, build_auto},
      {"solver", 1, false, false, true, build_solver},
  };
  return all;
}

const ScheduleInfo* find_schedule(std::string_view name) {
  for (const ScheduleInfo& info : all_schedules())
    if (info.name == name) return &info;
  return nullptr;
}

Plan build_schedule(std::string_view name, const ScheduleShape& shape) {
  const ScheduleInfo* info = find_schedule(name);
  if (info == nullptr)
    throw std::invalid_argument("there is no schedule \"" + std::string(name) + "\"; there are " + all_names());
  check_at_least_one("pipeline stages", shape.stages);
  check_at_least_one("chunks", shape.chunks);
  check_at_least_one("microbatches", shape.microbatches);
  check_at_least_one("slices", shape.slices);
  if (shape.slices > 1 && !info->takes_slices)
    throw std::invalid_argument("schedule " + std::string(name) +
                                " does not cut microbatches into slices; 1f1b and interleaved do");
  if (shape.microbatches > most_plan_work / shape.slices)
    throw std::invalid_argument("microbatches x slices are more than " + std::to_string(most_plan_work) +
                                ", the most of a plan");
  if (!info->chunks_can_vary && shape.chunks != info->default_chunks)
    throw std::invalid_argument("schedule " + std::string(name) + " has " + std::to_string(info->default_chunks) +
                                " chunk(s) a stage, not " + std::to_string(shape.chunks));
  return info->build(shape);
}

}  // namespace pipetrain::schedules
