// V-shaped orders of F and I that repeat one microbatch's passes at a fixed period. Internal to schedules/.
// Source: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory".
#pragma once

#include <array>
#include <vector>

#include "schedules/builders.hpp"

namespace pipetrain::schedules {

// Where one microbatch's passes stand in time, in steps of one chunk's F = I = W: how many steps each pass takes from stage to
// stage, and how many it spends turning round. Microbatches follow each other every 6 steps (2 F, 2 I, 2 W).
struct BuildingBlock {
  std::array<int, 4> per_stage;  // F of chunk 0 (down), F of chunk 1 (up), I of chunk 1 (down), I of chunk 0 (up)
  std::array<int, 3> turns;      // between them
};

// Whether two passes of some stage would fall on the same step.
bool collides(const BuildingBlock& block, int stages);
// One list of F and I per stage.
std::vector<std::vector<Action>> repeat(const BuildingBlock& block, const ScheduleShape& shape);
// The order of zb-v.
std::vector<std::vector<Action>> zb_v_order(const ScheduleShape& shape);

}  // namespace pipetrain::schedules
