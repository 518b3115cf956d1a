// Prints a plan's lists below each other with marked positions, for errors about a plan.
#pragma once

#include <string>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

struct GridMark {
  int stage = 0;
  std::size_t position = 0;  // in the stage's list; its length marks "after the end"
};

// Prints at most about 100 columns and 16 stages around the marks; omissions show as "..". A mark is written [F3].
std::string print_grid(const Plan& plan, const std::vector<GridMark>& marks);

}  // namespace pipetrain::schedules
