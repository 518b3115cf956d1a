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
      {.name = "gpipe", .has_ready_rule = true, .build = build_gpipe},
      {.name = "1f1b", .has_ready_rule = true, .takes_slices = true, .build = build_1f1b},
      {.name = "interleaved",
       .default_chunks = 2,
       .chunks_can_vary = true,
       .has_ready_rule = true,
       .takes_slices = true,
       .build = build_interleaved},
      {.name = "looped-bfs", .default_chunks = 2, .chunks_can_vary = true, .has_ready_rule = true, .build = build_looped_bfs},
      {.name = "zb-h1", .has_ready_rule = true, .build = build_zb_h1},
      {.name = "zb-h2", .has_ready_rule = true, .build = build_zb_h2},
      {.name = "zb-v", .default_chunks = 2, .has_ready_rule = true, .build = build_zb_v},
      {.name = "v-half", .default_chunks = 2, .build = build_v_half},
      {.name = "v-min", .default_chunks = 2, .build = build_v_min},
      {.name = "dualpipe-v", .default_chunks = 2, .has_ready_rule = true, .build = build_dualpipe_v},
      {.name = "braided-v", .default_chunks = 2, .braids = true, .build = build_braided_v},
      {.name = "auto", .has_ready_rule = true, .uses_costs = true, .build = build_auto},
      {.name = "solver", .uses_costs = true, .build = build_solver},
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
