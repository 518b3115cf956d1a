// Refuses options that do not work together, by the table of actors/training/job/combinations.hpp.
#pragma once

#include "actors/training/job/features.hpp"
#include "apps/options/option_values.hpp"

namespace pipetrain {

// Throws Error(input) that names the option as it was given.
void refuse_combinations(const OptionValues& values, const UsedFeatures& used);

}  // namespace pipetrain
