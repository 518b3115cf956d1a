// Lists the layouts that use every device, with a lower bound of the time of each.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/builders/builders.hpp"
#include "tuning/layout_costs.hpp"
#include "tuning/layout_variants.hpp"

namespace pipetrain {

struct LayoutCandidate {
  Layout layout;
  const schedules::ScheduleInfo* schedule = nullptr;
  double bound = 0;  // seconds: no variant's simulation is faster
};

struct LayoutCandidates {
  std::vector<LayoutCandidate> by_bound;  // the lowest bound first, without those whose state alone is too large
  std::int64_t looked_at = 0;
  std::int64_t too_large = 0;
  std::int64_t too_long = 0;  // number of layouts that would take too long to simulate
};

// Returns all pp x tp x dp x microbatch x schedule x chunks that the request allows. Throws Error(input) where there
// are none, or where all that fit would take too long to simulate.
LayoutCandidates layout_candidates(const LayoutRequest& request, const LayoutVariants& variants, LayoutCosts& costs);

}  // namespace pipetrain
