// Refuses options that do not work together.
#pragma once

#include "actors/training/job/combinations.hpp"
#include "apps/options/option_values.hpp"

namespace pipetrain {

// Throws Error(input) that names the option as it was given.
inline void refuse_combinations(const OptionValues& values, const UsedFeatures& used) {
  if (const Combination* met = find_refused(used)) values.fail(used.settings.at(met->feature).name, met->why);
}

}  // namespace pipetrain
