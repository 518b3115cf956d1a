// Computes how long a recorded step would have taken with other costs.
#pragma once

#include <vector>

#include "schedules/record/replay.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

struct Changes {
  std::vector<double> stage_factors;  // one per stage; empty: 1
  std::vector<double> link_factors;   // one per edge, as schedules::Costs::set_edges() counts them; empty: 1
  bool any() const { return !stage_factors.empty() || !link_factors.empty(); }
};

// Returns the stages of one replica and part alone, a row for each.
schedules::Timeline pipeline_rows(const schedules::RecordedRun& run, const schedules::Timeline& timeline, int replica,
                                  int part);

// Takes the last step of the replay, for which `timeline` has a row for each log. Returns the same rows with the
// changes, in seconds from the same beginning. Without changes it returns the timeline's own times up to rounding.
schedules::Timeline with_changes(const schedules::Replay& replay, const schedules::Timeline& timeline, const Changes& changes);

}  // namespace pipetrain
