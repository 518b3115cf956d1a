#include "schedules/builders.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace pipetrain::schedules {

namespace {

// Levenshtein distance.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view name) {
  const auto& all = all_schedules();
  return std::min_element(all.begin(), all.end(),
                          [&](const ScheduleInfo& a, const ScheduleInfo& b) {
                            return edits_between(name, a.name) < edits_between(name, b.name);
                          })
      ->name;
}

void check_at_least_one(std::string_view what, int value) {
  if (value < 1) throw std::invalid_argument(std::string(what) + " must be at least 1, not " + std::to_string(value));
}

}  // namespace

const std::vector<ScheduleInfo>& all_schedules() {
  static const std::vector<ScheduleInfo> all = {
      {"gpipe", 1, false, true, false, build_gpipe},
      {"1f1b", 1, false, true, false, build_1f1b},
      {"interleaved", 2, true, true, false, build_interleaved},
      {"looped-bfs", 2, true, true, false, build_looped_bfs},
      {"zb-h1", 1, false, true, false, build_zb_h1},
      {"zb-h2", 1, false, true, false, build_zb_h2},
      {"zb-v", 2, false, true, false, build_zb_v},
      {"v-half", 2, false, false, false, build_v_half},
      {"v-min", 2, false, false, false, build_v_min},
      {"dualpipe-v", 2, false, true, false, build_dualpipe_v},
      {"auto", 1, false, true, true, build_auto},
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
    throw std::invalid_argument("there is no schedule \"" + std::string(name) + "\"; did you mean \"" +
                                std::string(nearest_name(name)) + "\"?");
  check_at_least_one("pipeline stages", shape.stages);
  check_at_least_one("chunks", shape.chunks);
  check_at_least_one("microbatches", shape.microbatches);
  if (!info->chunks_can_vary && shape.chunks != info->default_chunks)
    throw std::invalid_argument("schedule " + std::string(name) + " has " + std::to_string(info->default_chunks) +
                                " chunk(s) a stage, not " + std::to_string(shape.chunks));
  return info->build(shape);
}

}  // namespace pipetrain::schedules
