// Finds a better cut for a run from the times that it has measured, where one device may be slower than the others.
#pragma once

#include <optional>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "model/config/cut.hpp"
#include "schedules/plan/plan.hpp"
#include "tuning/cut_search.hpp"

namespace pipetrain {

struct RetunedCut {
  Cut cut;
  double before = 0, after = 0;  // simulated seconds of a step with the run's cut and with this one
};

// Returns how many times as long as the fastest stage each stage computes on blocks of the same kind.
std::vector<double> slowness_of_stages(const Profile& measured);

// Returns the simulated seconds of a step of the plan with this cut, on devices that are as slow as in the measured run.
// measured: of a run of the same placement. Throws Error(input) for a profile whose model cannot be read.
double retuned_seconds(const Profile& measured, const schedules::Plan& plan, const Cut& cut);

// Searches from the run's cut, see search_cut(). No value where nothing better is found.
std::optional<RetunedCut> retune_cut(const Profile& measured, const schedules::Plan& plan, const CutLimits& limits);

}  // namespace pipetrain
