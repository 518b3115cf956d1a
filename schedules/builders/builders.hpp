// Every schedule has one builder in its own file; this header lists them by the names that users type.
#pragma once

#include <string_view>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

struct ScheduleShape {
  int stages = 1;
  int chunks = 1;  // per stage
  int microbatches = 1;
  int slices = 1;  // of each microbatch
};

struct ScheduleInfo {
  std::string_view name;
  int default_chunks = 1;  // used when --chunks is not given
  bool chunks_can_vary = false;
  bool has_ready_rule = false;  // --order ready is possible
  bool uses_costs = false;      // the plan depends on costs and memory: use build_auto() or solve() where they are known
  bool takes_slices = false;
  bool braids = false;  // some actions alternate with another, see braids.hpp
  Plan (*build)(const ScheduleShape&) = nullptr;
};

const std::vector<ScheduleInfo>& all_schedules();
// Returns null when there is no such schedule.
const ScheduleInfo* find_schedule(std::string_view name);

// Returns the compute of one step, by name. Throws std::invalid_argument, one line, when the schedule does not exist
// (it lists all that do), a size is below 1, or the schedule cannot have that many chunks or slices.
Plan build_schedule(std::string_view name, const ScheduleShape& shape);

// The builders themselves do not check their shape.
Plan build_gpipe(const ScheduleShape& shape);
Plan build_1f1b(const ScheduleShape& shape);
Plan build_interleaved(const ScheduleShape& shape);
Plan build_looped_bfs(const ScheduleShape& shape);
Plan build_zb_h1(const ScheduleShape& shape);
Plan build_zb_h2(const ScheduleShape& shape);
Plan build_zb_v(const ScheduleShape& shape);
Plan build_v_half(const ScheduleShape& shape);
Plan build_v_min(const ScheduleShape& shape);
Plan build_dualpipe_v(const ScheduleShape& shape);
Plan build_braided_v(const ScheduleShape& shape);

// auto_schedule.hpp has the full version; here F = I = W, 1f1b's memory, and at most shape.chunks chunks.
Plan build_auto(const ScheduleShape& shape);
// solver.hpp has the full version; here with the same inputs as auto, and deterministic.
Plan build_solver(const ScheduleShape& shape);

}  // namespace pipetrain::schedules
