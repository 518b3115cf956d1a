// V-shaped orders of F and I that repeat one microbatch's passes at a fixed period. Internal to schedules/.
// Source: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory".
#pragma once

#include <array>
#include <vector>

#include "schedules/builders/builders.hpp"

namespace pipetrain::schedules {

// The times of one microbatch's passes, in steps of one chunk's F = I = W: the steps from one stage to the next in each
// pass, and the steps at each turn between two passes. A microbatch begins every 6 steps (2 F, 2 I, 2 W).
struct BuildingBlock {
  std::array<int, 4> per_stage;  // F of chunk 0 (down), F of chunk 1 (up), I of chunk 1 (down), I of chunk 0 (up)
  std::array<int, 3> turns;      // between them
};

// True when two passes would need the same step of a stage.
bool collides(const BuildingBlock& block, int stages);
// Returns one list of F and I per stage.
std::vector<std::vector<Action>> repeat(const BuildingBlock& block, const ScheduleShape& shape);
// Returns the order of zb-v.
std::vector<std::vector<Action>> zb_v_order(const ScheduleShape& shape);

}  // namespace pipetrain::schedules
