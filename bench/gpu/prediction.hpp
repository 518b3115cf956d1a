// Predicts the step time by simulation, from the costs measured in a run.
#pragma once

#include "actors/training/records/profile.hpp"
#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

bool can_predict(const Profile& profile, const Schedule& schedule);
// Returns the seconds of a whole step of this schedule in the profile's layout. The profile must fit the schedule.
double predicted_seconds(const Profile& profile, const Schedule& schedule);

}  // namespace pipetrain::bench
