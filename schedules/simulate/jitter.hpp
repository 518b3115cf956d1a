// Random factors of times that depend only on the action they belong to. Internal to schedules/.
#pragma once

#include <cstdint>

#include "schedules/plan/action.hpp"

namespace pipetrain::schedules {

// Returns exp(deviation * z), z normal by (seed, stage, action).
double jitter_factor(double deviation, std::uint64_t seed, int stage, const Action& action);

}  // namespace pipetrain::schedules
