// A step of a layout as a run plans it.
#pragma once

#include <vector>

#include "schedules/plan/validate.hpp"
#include "tuning/layout_search.hpp"

namespace pipetrain {

struct WholeStep {
  schedules::Plan plan;  // with the end of the step that the layout needs
  std::vector<schedules::StageNeeds> needs;
};

// compute: the plan's forwards and backwards. Throws InvalidPlan.
WholeStep whole_step(const LayoutRequest& request, const Layout& layout, const schedules::Plan& compute);

}  // namespace pipetrain
