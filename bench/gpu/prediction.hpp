// The step time that the simulator predicts from the costs measured in a run.
#pragma once

#include "actors/training/records/profile.hpp"
#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

bool can_predict(const Profile& profile, const Schedule& schedule);
// Seconds of a whole step of this schedule in the profile's layout. The profile must be one for it.
double predicted_seconds(const Profile& profile, const Schedule& schedule);

}  // namespace pipetrain::bench
