// A plan's lists printed below each other, with places marked: what a person looks at when a plan is wrong.
#pragma once

#include <string>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

struct GridMark {
  int stage = 0;
  std::size_t position = 0;  // in the stage's list; its length marks "after the end"
};

// At most about 100 columns and 16 stages around the marks; what is left out shows as "..". A mark is written [F3].
std::string print_grid(const Plan& plan, const std::vector<GridMark>& marks);

}  // namespace pipetrain::schedules
